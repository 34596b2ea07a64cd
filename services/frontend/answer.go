package frontend

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/telemetry"
	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// question is a request that was not read yet.
type question struct {
	kind kind
	read func(*openai.Ignored) (*generationv1.Request, error)
}

// answer is a request on its way. One goroutine owns it; those of its intake only read id and req.
type answer struct {
	kind     kind
	id       string
	clientID string // what an HTTP client calls its request; may be empty
	worker   string // the only decode worker that an HTTP client wants; empty: any
	start    time.Time

	req         *generationv1.Request // nil until it was read
	dispatched  bool
	first, last time.Time // when the first token and the last chunk came
	tally       tally
	created     *timestamppb.Timestamp // start, as the chunks tell it; nil before the first that does not
	end         *generationv1.Chunk    // what the last chunk of all told, with the usage of all; nil before it
}

// answer reads a request, has it answered and passes the answer on. Whatever happens is
// counted, logged and returned once, here.
func (s *server) answer(ctx context.Context, q question, out sink) error {
	a := &answer{kind: q.kind, start: time.Now()}
	x := exchangeOf(ctx)
	if x == nil { // a gRPC caller: the edge has not done these
		var end func(error)
		ctx, end = s.startSpan(ctx, q.kind.name)
		err := s.admit(ctx)
		if err == nil {
			err = s.serveCaller(ctx, a, q, out)
			s.leave(ctx)
		}
		err = s.settle(ctx, a, err)
		end(err)
		return err
	}
	x.counted = true
	a.id, a.clientID, a.worker, a.start = x.id, x.clientID, x.worker, x.start
	return s.settle(ctx, a, s.serve(ctx, a, q, out, x))
}

func (s *server) serve(ctx context.Context, a *answer, q question, out sink, x *exchange) error {
	ignored := s.ignored()
	req, err := q.read(ignored)
	tell(ctx, ignored)
	if err != nil {
		return err
	}
	a.req = complete(req, a)
	a.tally = newTally(a.req)
	if x != nil {
		out = atEdge{sink: out, x: x}
		x.encoder.Answer(a.req)
	}
	return s.generate(ctx, a, out, x)
}

// generate has a request answered and passes the answer on. x is nil for a gRPC caller.
func (s *server) generate(ctx context.Context, a *answer, out sink, x *exchange) (err error) {
	ctx, end := context.WithTimeout(telemetry.WithRequestID(ctx, a.id), s.cfg.RequestTimeout)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	a.dispatched = true
	s.traffic.begin()
	in := source{
		parts: a.tally.parts, choices: a.tally.width,
		open: func(ctx context.Context, part int) (chunkStream, error) {
			return s.processor.Generate(ctx, &processorv1.GenerateRequest{Request: partOf(a.req, part)})
		},
	}.take(ctx)
	defer func() {
		if err != nil && ctx.Err() != nil { // whatever was said because of that
			err = whyEnded(ctx)
		}
		cancel(nil)
		in.close()
	}()
	if a.req.GetStream() {
		return a.done(a.follow(ctx, in, watch(s.cfg, cancel, out.keepalive, x), out.chunks), out)
	}
	all := newGathering(a.req)
	return a.whole(a.follow(ctx, in, watch(s.cfg, cancel, nil, nil), all.add), all, out)
}

// follow takes an answer as it comes, and passes on what came together. The vigil ends with it.
func (a *answer) follow(ctx context.Context, in intake, v *vigil, pass func([]*generationv1.Chunk) error) error {
	defer v.stop()
	for {
		v.wait(state{begun: !a.last.IsZero(), talking: a.tally.talking()})
		pieces, err := in.next()
		now := v.heard(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		chunks, err := a.take(pieces, now)
		if len(chunks) > 0 {
			err = cmp.Or(pass(chunks), err)
		}
		if err != nil {
			return err
		}
	}
}

// whyEnded is the error of an answer whose context has ended.
func whyEnded(ctx context.Context) error {
	if e := (*openai.Error)(nil); errors.As(context.Cause(ctx), &e) {
		return e
	}
	return ctx.Err()
}

// take checks pieces that came now, notes what they tell, and makes chunks of them that are
// the answer's own. Before an error come those that were right.
func (a *answer) take(pieces []piece, now time.Time) ([]*generationv1.Chunk, error) {
	chunks := make([]*generationv1.Chunk, 0, len(pieces))
	for _, p := range pieces {
		choice, err := a.tally.take(p, now)
		if err != nil {
			return chunks, openai.Broken(err)
		}
		c := a.own(p.chunk, choice)
		chunks = append(chunks, c)
		a.last = now
		if a.first.IsZero() && a.tally.begun {
			a.first = now
		}
		if a.tally.left == 0 {
			a.end = c
			if len(a.tally.choices) > 1 || c.GetUsage() == nil {
				a.end = &generationv1.Chunk{Id: a.id, Created: c.GetCreated(), Model: c.GetModel(), Usage: a.tally.usage()}
			}
		}
	}
	return chunks, nil
}

// own gives a chunk the answer's own id, time, model and index; it is the chunk itself if
// those are right already.
func (a *answer) own(c *generationv1.Chunk, choice int) *generationv1.Chunk {
	if c.GetId() == a.id && c.GetModel() != "" && c.GetCreated().GetSeconds() == a.start.Unix() && int(c.GetChoice()) == choice {
		return c
	}
	if a.created == nil {
		a.created = timestamppb.New(a.start)
	}
	return &generationv1.Chunk{
		Id: a.id, Created: a.created, Model: a.req.GetModel(), Choice: uint32(choice),
		Text: c.GetText(), FinishReason: c.GetFinishReason(), Usage: c.GetUsage(), Served: c.GetServed(),
		Logprobs: c.GetLogprobs(), TokenIds: c.GetTokenIds(), PromptTokenIds: c.GetPromptTokenIds(),
	}
}

func (a *answer) done(err error, out sink) error {
	if err != nil {
		return err
	}
	done := &frontendv1.Done{}
	if a.req.GetIncludeUsage() {
		done.Usage, done.Last = a.end.GetUsage(), a.end
	}
	return out.done(done)
}

func (a *answer) whole(err error, all *gathering, out sink) error {
	if err != nil {
		return err
	}
	return out.completion(&generationv1.Completion{
		Id: a.id, Created: a.end.GetCreated(), Model: a.end.GetModel(), Usage: a.end.GetUsage(), Choices: all.choices(),
	})
}
