package frontend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
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

// answer is a request on its way. One goroutine owns it.
type answer struct {
	kind     kind
	id       string
	clientID string // what an HTTP client calls its request; may be empty
	worker   string // the only decode worker that an HTTP client wants; empty: any
	start    time.Time

	req         *generationv1.Request // nil until it was read
	dispatched  bool
	first, last time.Time // when chunks came
	finish      generationv1.FinishReason
	end         *generationv1.Chunk // the chunk that had the finish reason
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
			err = s.serve(ctx, a, q, out, nil)
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
	ctx, cancel := context.WithTimeout(telemetry.WithRequestID(ctx, a.id), s.cfg.RequestTimeout)
	defer cancel()
	a.dispatched = true
	s.traffic.begin()
	stream, err := s.processor.Generate(ctx, &processorv1.GenerateRequest{Request: a.req})
	if err != nil {
		return err
	}
	f := startFeed(ctx, stream, s.cfg.QueueChunks)
	defer func() {
		cancel()
		f.wait()
	}()
	if x != nil {
		x.follow(a.req.GetIncludeUsage(), f.waiting)
	}
	if a.req.GetStream() {
		return s.stream(ctx, a, f, out)
	}
	return s.gather(ctx, a, f, out)
}

// complete fills in what a client may leave out, in a request of its own: the one that
// came may be the caller's.
func complete(in *generationv1.Request, a *answer) *generationv1.Request {
	if a.id == "" {
		a.id = in.GetRequestId()
	}
	if a.id == "" {
		a.id = newID(a.kind.idPrefix)
	}
	given := in.GetSampling()
	sampling := &generationv1.Sampling{Temperature: ptr(float32(1)), TopP: ptr(float32(1)), TopK: ptr(uint32(0))}
	if given != nil && given.Temperature != nil {
		sampling.Temperature = ptr(given.GetTemperature())
	}
	if given != nil && given.TopP != nil {
		sampling.TopP = ptr(given.GetTopP())
	}
	if given != nil && given.TopK != nil {
		sampling.TopK = ptr(given.GetTopK())
	}
	if given != nil && given.Seed != nil {
		sampling.Seed = ptr(given.GetSeed())
	} else {
		sampling.Seed = ptr(rand.Uint64())
	}
	return &generationv1.Request{
		RequestId: a.id, Model: in.GetModel(), Input: in.GetInput(), Sampling: sampling, Limits: in.GetLimits(),
		CacheSalt: in.GetCacheSalt(), Stream: in.GetStream(), IncludeUsage: in.GetIncludeUsage(),
		Session: in.GetSession(), DecodeWorker: cmp.Or(a.worker, in.GetDecodeWorker()),
	}
}

func ptr[T any](v T) *T { return &v }

// stream passes an answer on piece by piece.
func (s *server) stream(ctx context.Context, a *answer, f *feed, out sink) error {
	tick := time.NewTicker(s.cfg.Keepalive / 2)
	defer tick.Stop()
	silent := watch(a, s.cfg)
	defer silent.stop()
	quiet := false // nothing was sent since the last tick
	for {
		select {
		case c, ok := <-f.chunks:
			if !ok {
				return a.done(f.err, out)
			}
			c, err := a.take(c)
			if err != nil {
				return err
			}
			silent.broken()
			quiet = false
			if err := out.chunk(c); err != nil {
				return err
			}
		case <-tick.C:
			// Not before the first chunk: an error must still be able to have its status.
			if quiet && !a.first.IsZero() {
				if err := out.keepalive(); err != nil {
					return err
				}
			}
			quiet = !quiet
		case <-silent.timer.C:
			if err := silent.check(f.waiting()); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gather collects an answer and passes it on as a whole.
func (s *server) gather(ctx context.Context, a *answer, f *feed, out sink) error {
	silent := watch(a, s.cfg)
	defer silent.stop()
	var text strings.Builder
	for {
		select {
		case c, ok := <-f.chunks:
			if !ok {
				return a.whole(f.err, text.String(), out)
			}
			if _, err := a.take(c); err != nil {
				return err
			}
			silent.broken()
			text.WriteString(c.GetText())
		case <-silent.timer.C:
			if err := silent.check(f.waiting()); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take checks a chunk, notes what it tells, and gives it the answer's own id and time.
func (a *answer) take(c *generationv1.Chunk) (*generationv1.Chunk, error) {
	switch {
	case c.GetChoice() != 0:
		return nil, openai.Broken(fmt.Errorf("the processor sent choice %d of a request for one", c.GetChoice()))
	case a.end != nil:
		return nil, openai.Broken(errors.New("the processor sent a chunk after the last"))
	}
	a.last = time.Now()
	if a.first.IsZero() {
		a.first = a.last
	}
	if c.GetId() != a.id || c.GetModel() == "" || c.GetCreated().GetSeconds() != a.start.Unix() {
		c = &generationv1.Chunk{
			Id: a.id, Created: timestamppb.New(a.start), Model: a.req.GetModel(),
			Text: c.GetText(), FinishReason: c.GetFinishReason(), Usage: c.GetUsage(), Served: c.GetServed(),
		}
	}
	switch c.GetFinishReason() {
	case generationv1.FinishReason_FINISH_REASON_UNSPECIFIED:
		return c, nil
	case generationv1.FinishReason_FINISH_REASON_STOP, generationv1.FinishReason_FINISH_REASON_LENGTH:
		a.end = c
		return c, nil
	}
	return nil, openai.Broken(fmt.Errorf("the answer ended with %v and no status", c.GetFinishReason()))
}

// ended is the error of an answer whose stream ended with err.
func (a *answer) ended(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if a.end == nil {
		return openai.Broken(errors.New("the processor's stream ended before the answer did"))
	}
	return nil
}

func (a *answer) done(err error, out sink) error {
	if err := a.ended(err); err != nil {
		return err
	}
	done := &frontendv1.Done{}
	if a.req.GetIncludeUsage() {
		done.Usage, done.Last = a.usage(), a.end
	}
	return out.done(done)
}

func (a *answer) whole(err error, text string, out sink) error {
	if err := a.ended(err); err != nil {
		return err
	}
	return out.completion(&generationv1.Completion{
		Id: a.id, Created: a.end.GetCreated(), Model: a.end.GetModel(), Usage: a.usage(),
		Choices: []*generationv1.Choice{{Text: text, FinishReason: a.end.GetFinishReason(), Served: a.end.GetServed()}},
	})
}

// usage is the counts of the answer; zero if the processor told none.
func (a *answer) usage() *generationv1.Usage {
	if u := a.end.GetUsage(); u != nil {
		return u
	}
	return &generationv1.Usage{}
}
