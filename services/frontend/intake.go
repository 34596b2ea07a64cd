package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// piece is a chunk of the answer to one prompt.
type piece struct {
	part  int
	chunk *generationv1.Chunk
}

// intake is where the pieces of an answer come from. One goroutine calls its methods.
type intake interface {
	// next waits for pieces and returns those that are there, at least one. They hold until
	// the next call. At the end of the answer it returns io.EOF.
	next() ([]piece, error)
	// close returns when nothing is read any more. The context of the intake has ended by then.
	close()
}

type chunkStream = grpc.ServerStreamingClient[processorv1.GenerateResponse]

// source is where an intake reads.
type source struct {
	parts   int // streams
	choices int // that end in each
	open    func(ctx context.Context, part int) (chunkStream, error)
}

// take begins to read. As a rule there is one prompt: then whoever wants the next piece waits
// for it at the stream itself, and no token has to be handed from goroutine to goroutine.
func (s source) take(ctx context.Context) intake {
	if s.parts > 1 {
		return startFeed(ctx, s)
	}
	return &solo{ctx: ctx, from: s}
}

// reader reads the stream of one part.
type reader struct {
	stream chunkStream
	left   int // choices that have not ended
}

func (s source) reader(ctx context.Context, part int) (*reader, error) {
	stream, err := s.open(ctx, part)
	if err != nil {
		return nil, err
	}
	return &reader{stream: stream, left: s.choices}, nil
}

// chunks waits for those that come together next. At the end, not before that of all choices,
// it returns io.EOF.
func (r *reader) chunks() ([]*generationv1.Chunk, error) {
	m, err := r.stream.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) && r.left > 0 {
			return nil, openai.Broken(errors.New("the processor's stream ended before the answer did"))
		}
		return nil, err
	}
	for _, c := range m.GetChunks() {
		if c.GetFinishReason() != generationv1.FinishReason_FINISH_REASON_UNSPECIFIED {
			r.left--
		}
	}
	return m.GetChunks(), nil
}

// solo is the intake of one stream, which the first next opens.
type solo struct {
	ctx    context.Context // of the answer
	from   source
	reader *reader
	pieces []piece
}

var _ intake = (*solo)(nil)

func (s *solo) next() (_ []piece, err error) {
	if s.reader == nil {
		if s.reader, err = s.from.reader(s.ctx, 0); err != nil {
			return nil, err
		}
	}
	for {
		chunks, err := s.reader.chunks()
		if err != nil {
			return nil, err
		}
		s.pieces = s.pieces[:0]
		for _, c := range chunks {
			s.pieces = append(s.pieces, piece{chunk: c})
		}
		if len(s.pieces) > 0 {
			return s.pieces, nil
		}
	}
}

// close has nothing to wait for: nothing is read outside of next.
func (s *solo) close() {}

// ofPart tells which of several prompts an error is about.
func ofPart(err error, part int) error {
	e := openai.ErrorOf(err)
	if e.Param != "prompt" {
		return err
	}
	named := *e
	named.Param = fmt.Sprintf("prompt[%d]", part)
	return &named
}
