package processor

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor/output"
	"github.com/switchyard-llm/switchyard/services/processor/prompt"
)

// work is one request, which has one answer for each choice.
type work struct {
	p       *Processor
	req     *generationv1.Request
	base    *generationv1.Sequence // what all choices start from
	echo    string                 // the text that precedes each answer
	emit    func([]*generationv1.Chunk) error
	started time.Time
	created *timestamppb.Timestamp
}

// run generates all choices.
func (w *work) run(ctx context.Context) error {
	choices := prompt.Choices(w.req)
	if choices == 1 {
		return w.answer(0).run(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A stream is sent to from one goroutine.
	emit, chunks, ended := w.emit, make(chan []*generationv1.Chunk, choices), make(chan error, 1)
	w.emit = func(c []*generationv1.Chunk) error {
		select {
		case chunks <- c:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() {
		defer close(chunks)
		ended <- w.together(ctx, choices)
	}()
	var failed error
	for c := range chunks {
		if failed != nil {
			continue // nobody listens; the choices end
		}
		if failed = emit(c); failed != nil {
			cancel()
		}
	}
	return cmp.Or(failed, <-ended)
}

// together generates choices that share one prefill: the others begin when the first one has
// a token, at the same worker, which has the prompt by then.
func (w *work) together(ctx context.Context, choices int) error {
	g, ctx := errgroup.WithContext(ctx)
	first := w.answer(0)
	first.begun = func(worker string) {
		for i := 1; i < choices; i++ {
			a := w.answer(i)
			a.near = worker
			g.Go(func() error { return a.run(ctx) })
		}
	}
	g.Go(func() error { return first.run(ctx) })
	return g.Wait()
}

// answer makes the answer of one choice.
func (w *work) answer(choice int) *answer {
	limits, special := w.req.GetLimits(), tokenizer.NoSpecial
	if w.req.GetSpecialTokens() {
		special = tokenizer.WithSpecial
	}
	return &answer{
		work: w, choice: uint32(choice),
		text: output.New(output.Config{
			Decoder: w.p.deps.Model.Tokenizer.NewDetokenizer(special), Stop: limits.GetStop(), EndTokens: w.base.GetStopTokens(),
			MaxTokens: int(w.base.GetMaxTokens()), MinTokens: int(limits.GetMinTokens()), IncludeStop: limits.GetIncludeStop(),
			Settle: w.req.Logprobs != nil,
		}),
	}
}
