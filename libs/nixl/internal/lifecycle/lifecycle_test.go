package lifecycle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// life counts its clean-ups.
func life() (*Life, *int) {
	n := new(int)
	return New(func() error { *n++; return nil }), n
}

func untilEnd(ctx context.Context) error { <-ctx.Done(); return nil }

func TestCloseEndsRunAndCleansUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cleaned := life()
		ran := make(chan error)
		go func() { ran <- l.Run(t.Context(), untilEnd) }()
		if err := l.Started(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Run(t.Context(), untilEnd); err == nil {
			t.Fatal("Run ran twice")
		}
		closed := make(chan error, 2)
		go func() { closed <- l.Close() }()
		go func() { closed <- l.Close() }()
		if err := errors.Join(<-ran, <-closed, <-closed, l.Close()); err != nil || *cleaned != 1 {
			t.Fatalf("%v, %d clean-ups", err, *cleaned)
		}
		if err := l.Run(t.Context(), untilEnd); err != nixl.ErrClosed {
			t.Fatalf("Run after the end: %v", err)
		}
	})
}

func TestEndOfTheContextClosesForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cleaned := life()
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- l.Run(ctx, untilEnd) }()
		synctest.Wait()
		cancel()
		if err := <-ran; err != nil || *cleaned != 1 {
			t.Fatalf("%v, %d clean-ups", err, *cleaned)
		}
		if l.Err() != nixl.ErrClosed || l.Started(t.Context()) != nixl.ErrClosed || l.Close() != nil {
			t.Fatal("not closed")
		}
	})
}

func TestCloseWithoutRunCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cleaned := life()
		waiting := make(chan error)
		go func() { waiting <- l.Started(t.Context()) }()
		synctest.Wait()
		if err := errors.Join(l.Close(), l.Close()); err != nil || *cleaned != 1 {
			t.Fatalf("%v, %d clean-ups", err, *cleaned)
		}
		if err := <-waiting; err != nixl.ErrClosed {
			t.Fatalf("who waited for the start got %v", err)
		}
	})
}
