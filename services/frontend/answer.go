package frontend

import (
	"cmp"
	"context"
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

// answer is a request on its way. One goroutine owns it; those of its feed only read id and req.
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
	a.tally = newTally(a.req)
	ctx, cancel := context.WithTimeout(telemetry.WithRequestID(ctx, a.id), s.cfg.RequestTimeout)
	defer cancel()
	a.dispatched = true
	s.traffic.begin()
	f := startFeed(ctx, source{
		parts: a.tally.parts, choices: a.tally.width,
		open: func(ctx context.Context, part int) (chunkStream, error) {
			return s.processor.Generate(ctx, &processorv1.GenerateRequest{Request: partOf(a.req, part)})
		},
	}, s.cfg.QueueChunks)
	defer func() {
		cancel()
		f.wait()
	}()
	if x != nil {
		x.follow(a.req, f.waiting)
	}
	if a.req.GetStream() {
		return s.stream(ctx, a, f, out)
	}
	return s.gather(ctx, a, f, out)
}

// stream passes an answer on piece by piece.
func (s *server) stream(ctx context.Context, a *answer, f *feed, out sink) error {
	tick := time.NewTicker(s.cfg.Keepalive / 2)
	defer tick.Stop()
	silent := watch(a, s.cfg)
	defer silent.stop()
	quiet := false // nothing was sent since the last tick
	for {
		select {
		case <-f.ready:
			quiet = false
			if err := a.pass(f, silent, out); err != nil {
				return err
			}
			if over, err := f.over(); over {
				return a.done(err, out)
			}
		case <-tick.C:
			// Not before the first chunk: an error must still be able to have its status.
			if quiet && !a.last.IsZero() {
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

// passMost is how many chunks are passed on together at most.
const passMost = 64

// pass passes on what is there.
func (a *answer) pass(f *feed, silent *silence, out sink) error {
	for {
		var chunks []*generationv1.Chunk
		for len(chunks) < passMost {
			p, ok := f.next()
			if !ok {
				break
			}
			choice, err := a.take(p)
			if err != nil {
				return cmp.Or(send(chunks, out), err)
			}
			chunks = append(chunks, a.own(p.chunk, choice))
		}
		if len(chunks) == 0 {
			return nil
		}
		silent.broken()
		if err := send(chunks, out); err != nil {
			return err
		}
	}
}

// send passes chunks on, if there are any.
func send(chunks []*generationv1.Chunk, out sink) error {
	if len(chunks) == 0 {
		return nil
	}
	return out.chunks(chunks)
}

// gather collects an answer and passes it on as a whole.
func (s *server) gather(ctx context.Context, a *answer, f *feed, out sink) error {
	silent := watch(a, s.cfg)
	defer silent.stop()
	all := newGathering(a.req)
	for {
		select {
		case <-f.ready:
			for p, ok := f.next(); ok; p, ok = f.next() {
				choice, err := a.take(p)
				if err != nil {
					return err
				}
				silent.broken()
				all.add(choice, p.chunk)
			}
			if over, err := f.over(); over {
				return a.whole(err, all, out)
			}
		case <-silent.timer.C:
			if err := silent.check(f.waiting()); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take checks a chunk, notes what it tells, and gives the index of its choice among those
// of all prompts.
func (a *answer) take(p piece) (int, error) {
	now := time.Now()
	choice, err := a.tally.take(p, now)
	if err != nil {
		return 0, openai.Broken(err)
	}
	a.last = now
	if a.first.IsZero() && a.tally.begun {
		a.first = now
	}
	if a.tally.left == 0 {
		a.end = a.own(p.chunk, choice)
		if len(a.tally.choices) > 1 || a.end.GetUsage() == nil {
			a.end = &generationv1.Chunk{Id: a.id, Created: a.end.GetCreated(), Model: a.end.GetModel(), Usage: a.tally.usage()}
		}
	}
	return choice, nil
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
