package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Of prompts that come at once, what they share is computed once, whether it fits one step or many.
func TestABurstOfPromptsComputesWhatTheyShareOnce(t *testing.T) {
	const n, length = 6, 61
	for name, stepTokens := range map[string]int{"one step": 1000, "many steps": 16} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{StepTokens: stepTokens, Running: 10}, 300)
			rnd := rand.New(rand.NewPCG(3, 4))
			shared := promptOf(length-1, rnd)
			var (
				sequences  []*Sequence
				collectors []*collector
				prompts    [][]sequence.Token
			)
			for i := range n {
				prompts = append(prompts, append(slices.Clone(shared), sequence.Token(i)))
				collectors = append(collectors, newCollector())
				sequences = append(sequences, submit(t, r, sequence.Spec{Prompt: prompts[i], MaxTokens: 5}, collectors[i], options()))
			}
			for _, q := range sequences {
				if err := q.Start(); err != nil {
					t.Fatal(err)
				}
			}
			r.start(t)
			for i, c := range collectors {
				<-c.done
				if want := enginetest.ToyAnswer(prompts[i], 5); !slices.Equal(c.tokens, want) {
					t.Errorf("prompt %d is answered with %v, want %v", i, c.tokens, want)
				}
				cached := sequences[i].Table().CachedTokens()
				if want := length - 1; (cached != want) != (i == 0) {
					t.Errorf("prompt %d found %d tokens, want %d but for the first", i, cached, want)
				}
			}
			if got, want := r.Report().PromptTokens, uint64(length+n-1); got != want {
				t.Errorf("%d prompt tokens were computed, want %d", got, want)
			}
			checkIdle(t, r.Scheduler)
		})
	}
}

// Who takes the blocks of a prompt as they are filled hears of those that another computed, too.
func TestRowsThatAnotherComputedAreTold(t *testing.T) {
	r := newRig(t, Config{StepTokens: 16, Running: 10}, 100)
	prompt := promptOf(41, rand.New(rand.NewPCG(5, 6)))
	first, second := newCollector(), newCollector()
	a := submit(t, r, sequence.Spec{Prompt: prompt, MaxTokens: 1}, first, options())
	opt := options()
	opt.PromptOnly = true
	next := make([]int, r.Card().Layout.Layers)
	opt.Placed = func(layer, from, to int) {
		if next[layer] != from {
			t.Errorf("layer %d is told of [%d, %d) after %d", layer, from, to, next[layer])
		}
		next[layer] = to
	}
	b := submit(t, r, sequence.Spec{Prompt: prompt, MaxTokens: 1}, second, opt)
	for _, q := range []*Sequence{a, b} {
		if err := q.Start(); err != nil {
			t.Fatal(err)
		}
	}
	r.start(t)
	<-first.done
	<-second.done
	if got := b.Table().CachedTokens(); got != 40 {
		t.Errorf("%d tokens were found, want 40", got)
	}
	for layer, rows := range next {
		if rows != len(prompt) {
			t.Errorf("layer %d was told up to %d, want %d", layer, rows, len(prompt))
		}
	}
	b.Release()
	checkIdle(t, r.Scheduler)
}
