package scheduler

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// inLine submits a sequence that needs so many blocks.
func inLine(t *testing.T, r *rig, priority, blocks int) *Sequence {
	t.Helper()
	q, err := r.Submit(sequence.Spec{Prompt: []sequence.Token{1}, MaxTokens: blocks * blockTokens, Priority: priority}, newCollector(), options())
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func in(q *Sequence) bool {
	select {
	case <-q.admitted:
		return true
	default:
		return false
	}
}

func TestTheWaitingLineFollowsPriorityThenArrival(t *testing.T) {
	r := newRig(t, Config{StepTokens: 10, Running: 1, Waiting: 8}, 20)
	var line []*Sequence
	for _, priority := range []int{0, 5, 0, -1, 0, 5, -1} {
		line = append(line, inLine(t, r, priority, 1))
	}
	for n, i := range []int{0, 3, 6, 2, 4, 1, 5} {
		for j, q := range line {
			if want := j == i; in(q) != want {
				t.Fatalf("place %d: sequence %d is in: %v, want sequence %d", n, j, !want, i)
			}
		}
		line[i].Cancel()
		line[i] = &Sequence{admitted: make(chan struct{})}
	}
	checkIdle(t, r.Scheduler)
}

func TestAFullLineRefusesWhoeverComes(t *testing.T) {
	r := newRig(t, Config{StepTokens: 10, Running: 1, Waiting: 1}, 20)
	running, waits := inLine(t, r, 0, 1), inLine(t, r, 3, 1)
	if _, err := r.Submit(*waits.Spec(), newCollector(), options()); err == nil {
		t.Error("a second one waits")
	}
	urgent := *waits.Spec()
	urgent.Priority = -3
	if _, err := r.Submit(urgent, newCollector(), options()); err == nil {
		t.Error("an urgent one took another's place in the line")
	}
	running.Cancel()
	if !in(waits) {
		t.Error("the one that waited was lost")
	}
	waits.Cancel()
	checkIdle(t, r.Scheduler)
}

func TestOneThatWaitsLongIsPassedByHigherPrioritiesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{StepTokens: 20, Running: 16, Waiting: 16}, 20)
		holder := inLine(t, r, 1, 10)
		large := inLine(t, r, 1, 15)
		early := inLine(t, r, 1, 2)
		if !in(holder) || in(large) || !in(early) {
			t.Fatal("while the large one is young a small one must pass it")
		}
		time.Sleep(passAfter + time.Millisecond) // virtual
		equal, lower, higher := inLine(t, r, 1, 2), inLine(t, r, 2, 2), inLine(t, r, 0, 2)
		if in(equal) || in(lower) || !in(higher) {
			t.Errorf("equal is in: %v, lower: %v, higher: %v; want the higher priority only", in(equal), in(lower), in(higher))
		}
		higher.Cancel()
		early.Cancel()
		if in(equal) || in(lower) {
			t.Error("the large one is starved by its own or a lower priority")
		}
		holder.Cancel()
		if !in(large) || !in(equal) || !in(lower) {
			t.Error("with room for all, not all are in")
		}
		for _, q := range []*Sequence{large, equal, lower} {
			q.Cancel()
		}
		checkIdle(t, r.Scheduler)
	})
}

func TestPromptsGetStepsByPriorityThenStart(t *testing.T) {
	r := newRig(t, Config{StepTokens: 10, Running: 8, Waiting: 8}, 100)
	rnd := rand.New(rand.NewPCG(31, 32))
	const rows = 25 // of each prompt
	priorities, late := []int{1, 0, 1, 0}, -1
	var prompts [][]sequence.Token
	for range len(priorities) + 1 {
		prompts = append(prompts, promptOf(rows, rnd))
	}
	sinks := make([]*collector, len(prompts))
	begin := func(i, priority int) {
		sinks[i] = newCollector()
		if err := submit(t, r, sequence.Spec{Prompt: prompts[i], MaxTokens: 1, Priority: priority}, sinks[i], options()).Start(); err != nil {
			t.Error(err)
		}
	}
	var order []int // of the prompts whose rows were computed
	r.toy.BeforeStep = func(_ context.Context, b *engine.Batch) error {
		for _, s := range b.Segments {
			i := slices.IndexFunc(prompts, func(p []sequence.Token) bool {
				return s.Start+len(s.Tokens) <= rows && slices.Equal(p[s.Start:s.Start+len(s.Tokens)], s.Tokens)
			})
			if len(order) == 0 || order[len(order)-1] != i {
				order = append(order, i)
			}
		}
		if len(order) == 1 && sinks[4] == nil { // the first prompt has begun
			begin(4, late)
		}
		return nil
	}
	for i, p := range priorities {
		begin(i, p)
	}
	r.start(t)
	for i := range priorities {
		<-sinks[i].done
	}
	<-sinks[4].done
	if want := []int{1, 4, 1, 3, 0, 2}; !slices.Equal(order, want) {
		t.Errorf("prompts were computed in the order %v, want %v", order, want)
	}
	checkIdle(t, r.Scheduler)
}
