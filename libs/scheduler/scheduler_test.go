package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

const blockTokens = 4

// heap is block memory for an executor of this process.
type heap struct {
	bytes  []byte
	layout block.Layout
	blocks int
}

func (h heap) Bytes() []byte        { return h.bytes }
func (h heap) Layout() block.Layout { return h.layout }
func (h heap) Blocks() int          { return h.blocks }

// rig is a scheduler that runs over a toy.
type rig struct {
	*Scheduler
	toy *enginetest.Toy
}

func newRig(t *testing.T, cfg Config, blocks int) *rig {
	t.Helper()
	toy := enginetest.NewToy(blockTokens, 200)
	layout := toy.Card().Layout
	if err := toy.Bind(heap{make([]byte, blocks*layout.BlockBytes()), layout, blocks}); err != nil {
		t.Fatal(err)
	}
	pool, err := block.NewPool(block.Config{Blocks: blocks, BlockTokens: blockTokens, Chain: prefix.Next})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, toy, pool, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return &rig{s, toy}
}

// start runs the scheduler until the test ends.
func (r *rig) start(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// collector is a sink.
type collector struct {
	mu     sync.Mutex
	tokens []sequence.Token
	probs  []sequence.LogProbs
	reason sequence.Finish
	err    error
	ended  int
	done   chan struct{}
	onTok  func(n int)
}

func newCollector() *collector { return &collector{done: make(chan struct{})} }

func (c *collector) Token(t sequence.Token, p *sequence.LogProbs) {
	c.mu.Lock()
	if c.ended > 0 {
		panic("a token after the end")
	}
	c.tokens = append(c.tokens, t)
	if p != nil {
		c.probs = append(c.probs, *p)
	}
	n := len(c.tokens)
	c.mu.Unlock()
	if c.onTok != nil {
		c.onTok(n)
	}
}

func (c *collector) End(reason sequence.Finish, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reason, c.err = reason, err
	if c.ended++; c.ended > 1 {
		panic("two ends")
	}
	close(c.done)
}

func options() Options { return Options{Namespace: "n", Root: prefix.Root("n", "", "")} }

func promptOf(n int, r *rand.Rand) []sequence.Token {
	p := make([]sequence.Token, n)
	for i := range p {
		p[i] = sequence.Token(r.IntN(enginetest.ToyVocab))
	}
	return p
}

// checkIdle fails unless every block is free or cached.
func checkIdle(t *testing.T, s *Scheduler) {
	t.Helper()
	c := s.pool.Counts()
	if c.Now[block.Free]+c.Now[block.Sealed] != c.Capacity || c.Booked != 0 {
		t.Errorf("blocks after the end: %+v", c)
	}
	if r := s.Report(); r.Running != 0 || r.Waiting != 0 || r.ActiveTokens != 0 || r.WaitingTokens != 0 {
		t.Errorf("report after the end: %+v", r)
	}
}

func TestAnswersDoNotDependOnBatchingChunkingOrSharing(t *testing.T) {
	for _, cfg := range []Config{{StepTokens: 2, Running: 1, Waiting: 100}, {StepTokens: 9, Running: 8, Waiting: 100}, {StepTokens: 300, Running: 64, Waiting: 100}} {
		t.Run(fmt.Sprintf("%d tokens a step", cfg.StepTokens), func(t *testing.T) {
			r := newRig(t, cfg, 60) // far too few blocks for all at once
			r.start(t)
			rnd := rand.New(rand.NewPCG(1, 2))
			shared := promptOf(40, rnd)
			var all sync.WaitGroup
			for i := range 60 {
				prompt := promptOf(1+rnd.IntN(50), rnd)
				if i%2 == 0 {
					prompt = slices.Concat(shared[:rnd.IntN(40)], prompt)
				}
				max := 1 + rnd.IntN(20)
				all.Go(func() {
					c := newCollector()
					q, err := r.Submit(sequence.Spec{Prompt: prompt, MaxTokens: max, StopTokens: []sequence.Token{7}}, c, options())
					if err != nil {
						t.Error(err)
						return
					}
					if err := q.Wait(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if err := q.Start(); err != nil {
						t.Error(err)
					}
					<-c.done
					want := enginetest.ToyAnswer(prompt, max, 7)
					reason := sequence.FinishLength
					if want[len(want)-1] == 7 {
						reason = sequence.FinishStop
					}
					if !slices.Equal(c.tokens, want) || c.reason != reason || c.err != nil {
						t.Errorf("request %d: %v %v %v, want %v %v", i, c.tokens, c.reason, c.err, want, reason)
					}
				})
			}
			all.Wait()
			checkIdle(t, r.Scheduler)
			if r.pool.Stats().CachedTokens == 0 {
				t.Error("no prefix was shared")
			}
		})
	}
}

func TestAttachContinuesAPromptThatWasComputedElsewhere(t *testing.T) {
	r := newRig(t, DefaultConfig(), 50)
	r.start(t)
	prompt := promptOf(10, rand.New(rand.NewPCG(3, 4)))
	want := enginetest.ToyAnswer(prompt, 5)
	c := newCollector()
	q := submit(t, r, sequence.Spec{Prompt: prompt, MaxTokens: 5}, c, options())
	if _, err := q.Table().Reserve("t"); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ticket, err := r.pool.Claim("t", block.Claim{Attempt: "a", Writer: "w", Now: now, Expiry: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	write(t, r, ticket, prompt)
	if err := r.pool.Commit("t", block.Receipt{Writer: "w", Ticket: ticket.Number, Blocks: ticket.Blocks, Tokens: len(prompt)}); err != nil {
		t.Fatal(err)
	}
	if err := q.Attach(want[0], nil, sequence.Unfinished); err != nil {
		t.Fatal(err)
	}
	<-c.done
	if !slices.Equal(c.tokens, want) || c.reason != sequence.FinishLength {
		t.Errorf("%v %v, want %v", c.tokens, c.reason, want)
	}
	if got := r.Report().PromptTokens; got != 0 {
		t.Errorf("%d prompt tokens were computed, want none", got)
	}
	if got := r.Report().ContextTokens; got != 11+12+13+14 {
		t.Errorf("four steps attended to %d tokens, want 11, 12, 13 and 14", got)
	}
	checkIdle(t, r.Scheduler)
}

// write does what a prefill worker does: it fills the ticket's blocks.
func write(t *testing.T, r *rig, ticket block.Ticket, prompt []sequence.Token) {
	t.Helper()
	var ids []block.ID
	for _, b := range ticket.Blocks {
		ids = append(ids, b.ID)
	}
	b := &engine.Batch{Segments: []engine.Segment{{Tokens: prompt, Blocks: ids}}}
	if err := r.toy.Step(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func submit(t *testing.T, r *rig, spec sequence.Spec, sink Sink, opt Options) *Sequence {
	t.Helper()
	q, err := r.Submit(spec, sink, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestPromptOnlyEndsAfterOneTokenAndKeepsItsBlocks(t *testing.T) {
	r := newRig(t, DefaultConfig(), 50)
	r.start(t)
	prompt := promptOf(10, rand.New(rand.NewPCG(5, 6)))
	opt := options()
	opt.PromptOnly = true
	c := newCollector()
	q := submit(t, r, sequence.Spec{Prompt: prompt, MaxTokens: 9}, c, opt)
	if err := q.Start(); err != nil {
		t.Fatal(err)
	}
	<-c.done
	if want := enginetest.ToyAnswer(prompt, 1); !slices.Equal(c.tokens, want) || c.reason != sequence.Unfinished {
		t.Errorf("%v %v, want %v unfinished", c.tokens, c.reason, want)
	}
	if got := len(q.Table().Blocks()); got != 3 {
		t.Errorf("%d blocks are kept, want 3", got)
	}
	q.Release()
	checkIdle(t, r.Scheduler)
}

func TestCancelEndsASequenceInEveryState(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	spec := func() sequence.Spec { return sequence.Spec{Prompt: promptOf(30, rnd), MaxTokens: 100} }

	t.Run("waiting", func(t *testing.T) {
		r := newRig(t, DefaultConfig(), 40)
		first := submit(t, r, spec(), newCollector(), options())
		ctx, cancel := context.WithCancel(t.Context())
		q, err := r.Submit(spec(), newCollector(), options())
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := q.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait = %v, want context.Canceled", err)
		}
		first.Cancel()
		checkIdle(t, r.Scheduler)
	})
	t.Run("held by its owner", func(t *testing.T) {
		r := newRig(t, DefaultConfig(), 40)
		c := newCollector()
		q := submit(t, r, spec(), c, options())
		q.Cancel()
		<-c.done
		if c.reason != sequence.FinishCancelled {
			t.Errorf("reason %v", c.reason)
		}
		if err := q.Start(); !errors.Is(err, ErrState) {
			t.Errorf("Start = %v, want ErrState", err)
		}
		checkIdle(t, r.Scheduler)
	})
	t.Run("running, within one step", func(t *testing.T) {
		r := newRig(t, DefaultConfig(), 40)
		c := newCollector()
		q := submit(t, r, spec(), c, options())
		c.onTok = func(n int) {
			if n == 3 {
				q.Cancel()
			}
		}
		r.start(t)
		if err := q.Start(); err != nil {
			t.Fatal(err)
		}
		<-c.done
		if len(c.tokens) != 3 || c.reason != sequence.FinishCancelled {
			t.Errorf("%d tokens and %v, want 3 and cancelled", len(c.tokens), c.reason)
		}
		checkIdle(t, r.Scheduler)
	})
}

func TestDecodingGoesOnBesideALongPrompt(t *testing.T) {
	r := newRig(t, Config{StepTokens: 10, Running: 8, Waiting: 8}, 100)
	rnd := rand.New(rand.NewPCG(9, 10))
	var steps [][]int
	r.toy.BeforeStep = func(_ context.Context, b *engine.Batch) error {
		var sizes []int
		for _, s := range b.Segments {
			sizes = append(sizes, len(s.Tokens))
		}
		steps = append(steps, sizes)
		return nil
	}
	short, long := newCollector(), newCollector()
	q := submit(t, r, sequence.Spec{Prompt: promptOf(3, rnd), MaxTokens: 8}, short, options())
	p := submit(t, r, sequence.Spec{Prompt: promptOf(60, rnd), MaxTokens: 2}, long, options())
	short.onTok = func(n int) {
		if n == 1 {
			if err := p.Start(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := q.Start(); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	<-short.done
	<-long.done
	for i, sizes := range steps[1:7] {
		if !slices.Equal(sizes, []int{1, 9}) {
			t.Errorf("step %d computed %v tokens, want one of the decoding sequence and nine of the prompt", i+1, sizes)
		}
	}
	if got := r.Report().ContextTokens; got != 4+5+6+7+8+9+10+61 { // what prompts attend to is none of it
		t.Errorf("the decoding sequences attended to %d tokens, want 110", got)
	}
}

func TestASequenceThatRunsAloneSharesNoStepAndStopsNoOther(t *testing.T) {
	const alone, others = 4, 3
	r := newRig(t, Config{StepTokens: 10, Running: 8, Waiting: 8}, 100)
	rnd := rand.New(rand.NewPCG(13, 14))
	suspect := promptOf(25, rnd)
	var steps [][]bool // for each segment, whether it is the suspect's
	r.toy.BeforeStep = func(_ context.Context, b *engine.Batch) error {
		var whose []bool
		for _, s := range b.Segments {
			// The others' prompts take one step each.
			whose = append(whose, s.Start >= 9 || slices.Equal(s.Tokens, suspect[:len(s.Tokens)]))
		}
		steps = append(steps, whose)
		return nil
	}
	specs := []sequence.Spec{{Prompt: suspect, MaxTokens: alone + 5}}
	for range others {
		specs = append(specs, sequence.Spec{Prompt: promptOf(3, rnd), MaxTokens: 6})
	}
	var sinks []*collector
	for i, spec := range specs {
		opt := options()
		if i == 0 {
			opt.Alone = alone
		}
		sinks = append(sinks, newCollector())
		if err := submit(t, r, spec, sinks[i], opt).Start(); err != nil {
			t.Fatal(err)
		}
	}
	r.start(t)
	for i, sink := range sinks {
		<-sink.done
		if want := enginetest.ToyAnswer(specs[i].Prompt, specs[i].MaxTokens); !slices.Equal(sink.tokens, want) {
			t.Errorf("sequence %d: %v, want %v", i, sink.tokens, want)
		}
	}
	// 25 rows in steps of 10, the last of which gives the first token.
	for i, whose := range steps[:2*(3+alone-1)-1] {
		if want := i%2 == 0; slices.Contains(whose, true) != want || want && len(whose) != 1 {
			t.Errorf("step %d is for %v, want the suspect alone in every second one", i, whose)
		}
	}
	checkIdle(t, r.Scheduler)
}

func TestRefusals(t *testing.T) {
	r := newRig(t, Config{StepTokens: 10, Running: 1, Waiting: 1}, 20)
	for _, tc := range []struct {
		name string
		spec sequence.Spec
		want string
	}{
		{"empty prompt", sequence.Spec{MaxTokens: 1}, "prompt is empty"},
		{"no tokens to generate", sequence.Spec{Prompt: []sequence.Token{1}}, "max_tokens"},
		{"beyond the context", sequence.Spec{Prompt: []sequence.Token{1}, MaxTokens: 200}, "max_tokens"},
		{"unknown token", sequence.Spec{Prompt: []sequence.Token{1, 251}, MaxTokens: 1}, "prompt[1]"},
		{"bad temperature", sequence.Spec{Prompt: []sequence.Token{1}, MaxTokens: 1, Sampling: sequence.Sampling{Temperature: -1}}, "temperature"},
	} {
		if _, err := r.Submit(tc.spec, newCollector(), options()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want an error about %s", tc.name, err, tc.want)
		}
	}
	fits := sequence.Spec{Prompt: []sequence.Token{1}, MaxTokens: 50}
	q := submit(t, r, fits, newCollector(), options())
	second, err := r.Submit(fits, newCollector(), options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Submit(fits, newCollector(), options()); !errors.Is(err, ErrBusy) {
		t.Errorf("third: %v, want ErrBusy", err)
	}
	q.Cancel()
	if err := second.Wait(t.Context()); err != nil {
		t.Errorf("second: %v", err)
	}
	second.Cancel()
	never, err := r.Submit(sequence.Spec{Prompt: []sequence.Token{1}, MaxTokens: 150}, newCollector(), options())
	if err != nil {
		t.Fatal(err)
	}
	if err := never.Wait(t.Context()); !errors.Is(err, block.ErrTooLarge) {
		t.Errorf("150 tokens into 20 blocks: %v, want ErrTooLarge", err)
	}
	checkIdle(t, r.Scheduler)
}

func TestAFailedStepEndsItsSequencesAndTheNextOneGoesOn(t *testing.T) {
	r := newRig(t, DefaultConfig(), 40)
	broken := errors.New("broken")
	fail := true
	r.toy.BeforeStep = func(context.Context, *engine.Batch) error {
		if fail {
			fail = false
			return broken
		}
		return nil
	}
	r.start(t)
	prompt := promptOf(5, rand.New(rand.NewPCG(11, 12)))
	for _, want := range []error{broken, nil} {
		c := newCollector()
		q := submit(t, r, sequence.Spec{Prompt: prompt, MaxTokens: 3}, c, options())
		if err := q.Start(); err != nil {
			t.Fatal(err)
		}
		<-c.done
		if !errors.Is(c.err, want) {
			t.Errorf("error %v, want %v", c.err, want)
		}
	}
	checkIdle(t, r.Scheduler)
}

func TestTheEndOfRunEndsEverySequence(t *testing.T) {
	r := newRig(t, Config{StepTokens: 10, Running: 2, Waiting: 8}, 40)
	ctx, cancel := context.WithCancel(t.Context())
	spec := sequence.Spec{Prompt: []sequence.Token{1, 2, 3}, MaxTokens: 60}
	running, held, waits := newCollector(), newCollector(), newCollector()
	q := submit(t, r, spec, running, options())
	h := submit(t, r, spec, held, options())
	w, err := r.Submit(spec, waits, options())
	if err != nil {
		t.Fatal(err)
	}
	running.onTok = func(n int) {
		if n == 2 {
			cancel()
		}
	}
	if err := q.Start(); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait = %v, want ErrClosed", err)
	}
	if err := h.Start(); !errors.Is(err, ErrClosed) {
		t.Errorf("Start = %v, want ErrClosed", err)
	}
	for _, c := range []*collector{running, held} {
		<-c.done
		if !errors.Is(c.err, ErrClosed) {
			t.Errorf("%v, want ErrClosed", c.err)
		}
	}
	checkIdle(t, r.Scheduler)
}
