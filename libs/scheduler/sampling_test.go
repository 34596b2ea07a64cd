package scheduler

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// expect is what a toy with Spread answers, by the definition.
func expect(t *testing.T, spec sequence.Spec) (tokens []sequence.Token, probs []sequence.LogProbs) {
	t.Helper()
	tokens, probs, err := enginetest.SpreadAnswer(spec)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, probs
}

func demanding(prompt []sequence.Token, temperature float32) sequence.Spec {
	spec := enginetest.Demanding(prompt)
	spec.Sampling.Temperature = temperature
	return spec
}

// finish runs a sequence to its end.
func finish(t *testing.T, r *rig, spec sequence.Spec) *collector {
	t.Helper()
	c := newCollector()
	if err := submit(t, r, spec, c, options()).Start(); err != nil {
		t.Fatal(err)
	}
	<-c.done
	return c
}

// check compares what came with what had to come.
func (c *collector) check(t *testing.T, what string, tokens []sequence.Token, probs []sequence.LogProbs) {
	t.Helper()
	if diff := cmp.Diff(tokens, c.tokens); diff != "" || c.err != nil {
		t.Errorf("%s: %v, tokens (-want +got):\n%s", what, c.err, diff)
	}
	if diff := cmp.Diff(probs, c.probs); diff != "" {
		t.Errorf("%s: log-probabilities (-want +got):\n%s", what, diff)
	}
}

func TestEverythingAskedOfADrawGivesOneAnswer(t *testing.T) {
	for _, temperature := range []float32{0, 0.9} {
		for _, cfg := range []Config{{StepTokens: 2, Running: 1, Waiting: 100}, {StepTokens: 300, Running: 64, Waiting: 100}} {
			r := newRig(t, cfg, 100)
			r.toy.Spread = true
			r.start(t)
			rnd := rand.New(rand.NewPCG(21, 22))
			var all sync.WaitGroup
			for range 20 {
				spec := demanding(promptOf(1+rnd.IntN(30), rnd), temperature)
				all.Go(func() {
					tokens, probs := expect(t, spec)
					finish(t, r, spec).check(t, "whole", tokens, probs)
				})
			}
			all.Wait()
			checkIdle(t, r.Scheduler)
		}
	}
}

func TestTheParametersShowInTheAnswer(t *testing.T) {
	r := newRig(t, DefaultConfig(), 100)
	r.toy.Spread = true
	r.start(t)
	spec := demanding(promptOf(9, rand.New(rand.NewPCG(23, 24))), 0.9)
	got := finish(t, r, spec)
	if got.reason != sequence.FinishStop || len(got.tokens) < spec.MinTokens+1 || slices.Contains(got.tokens[:spec.MinTokens], spec.StopTokens[0]) {
		t.Errorf("%v %v, want a stop right after %d tokens without one", got.reason, got.tokens, spec.MinTokens)
	}
	for what, change := range map[string]func(*sequence.Spec){
		"min_tokens":         func(s *sequence.Spec) { s.MinTokens = 0 },
		"min_p":              func(s *sequence.Spec) { s.Sampling.MinP = 1 },
		"repetition_penalty": func(s *sequence.Spec) { s.Sampling.RepetitionPenalty = 0 },
		"frequency_penalty":  func(s *sequence.Spec) { s.Sampling.FrequencyPenalty = -2 },
		"presence_penalty":   func(s *sequence.Spec) { s.Sampling.PresencePenalty = -2 },
		"logit_bias":         func(s *sequence.Spec) { s.Sampling.Bias = nil },
	} {
		other := spec
		change(&other)
		if c := finish(t, r, other); slices.Equal(c.tokens, got.tokens) {
			t.Errorf("%s changes nothing", what)
		}
	}
	spec.LogProbs = false
	if c := finish(t, r, spec); !slices.Equal(c.tokens, got.tokens) || c.probs != nil {
		t.Errorf("without log-probabilities: %v with %d of them, want %v and none", c.tokens, len(c.probs), got.tokens)
	}
}

func TestAMigratedSequenceGoesOnAsIfNothingHadHappened(t *testing.T) {
	r := newRig(t, DefaultConfig(), 100)
	r.toy.Spread = true
	r.start(t)
	whole := demanding(promptOf(9, rand.New(rand.NewPCG(25, 26))), 0.9)
	tokens, probs := expect(t, whole)
	for n := range tokens {
		rest := whole
		rest.Generated = tokens[:n]
		finish(t, r, rest).check(t, "continued", tokens[n:], probs[n:])
	}
}

func TestAttachGoesOnFromATokenThatWasDrawnElsewhere(t *testing.T) {
	r := newRig(t, DefaultConfig(), 100)
	r.toy.Spread = true
	r.start(t)
	spec := demanding(promptOf(10, rand.New(rand.NewPCG(27, 28))), 0)
	tokens, probs := expect(t, spec)
	prefill := func() *Sequence { // the prompt's rows come from elsewhere
		q := submit(t, r, spec, newCollector(), options())
		if _, err := q.Table().Reserve("t"); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		ticket, err := r.pool.Claim("t", block.Claim{Attempt: "a", Writer: "w", Now: now, Expiry: now.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		write(t, r, ticket, spec.Prompt)
		if err := r.pool.Commit("t", block.Receipt{Writer: "w", Ticket: ticket.Number, Blocks: ticket.Blocks, Tokens: 10}); err != nil {
			t.Fatal(err)
		}
		return q
	}
	q := prefill()
	if err := q.Attach(tokens[0], nil, sequence.Unfinished); err == nil || !strings.Contains(err.Error(), "log-probability") {
		t.Errorf("without what was asked for: %v", err)
	}
	if err := q.Attach(tokens[0], &probs[0], sequence.Unfinished); err != nil {
		t.Fatal(err)
	}
	c := q.sink.(*collector)
	<-c.done
	c.check(t, "attached", tokens, probs)
}

func TestABannedVocabularyEndsTheSequenceClearly(t *testing.T) {
	r := newRig(t, DefaultConfig(), 20)
	r.start(t)
	spec := sequence.Spec{Prompt: []sequence.Token{1}, MaxTokens: 3, MinTokens: 1}
	for i := range sequence.Token(enginetest.ToyVocab) {
		spec.StopTokens = append(spec.StopTokens, i)
	}
	if c := finish(t, r, spec); c.reason != sequence.FinishError || !strings.Contains(c.err.Error(), "251 tokens must not be drawn yet") {
		t.Errorf("%v, %v", c.reason, c.err)
	}
}
