package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

func TestBetweenRunsWhileNoStepDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{StepTokens: 10, Running: 2, Waiting: 8}, 40)
		inStep, goOn := make(chan struct{}), make(chan struct{})
		r.toy.BeforeStep = func(context.Context, *engine.Batch) error {
			inStep <- struct{}{}
			<-goOn
			return nil
		}
		r.start(t)
		if err := r.Between(t.Context(), func() {}); err != nil { // nothing to compute
			t.Fatal(err)
		}
		c := newCollector()
		q, err := r.Submit(sequence.Spec{Prompt: []sequence.Token{1, 2, 3}, MaxTokens: 2}, c, options())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(q.Wait(t.Context()), q.Start()); err != nil {
			t.Fatal(err)
		}
		<-inStep
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Between(short, func() { t.Error("run within a step") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		ran := make(chan error, 1)
		go func() { ran <- r.Between(t.Context(), func() {}) }()
		synctest.Wait()
		if len(ran) != 0 {
			t.Fatal("run within a step")
		}
		goOn <- struct{}{}
		<-inStep
		synctest.Wait()
		if len(ran) != 1 || <-ran != nil {
			t.Fatal("not run between two steps")
		}
		goOn <- struct{}{}
		<-c.done
	})
}
