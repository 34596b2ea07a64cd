package progress

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

func want(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestLifeOfATransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Progress
		want(t, p.Status(), nixl.ErrNotPosted)
		want(t, p.Wait(t.Context()), nixl.ErrNotPosted)
		why := errors.New("why")
		for _, end := range []error{nil, why, nil} {
			want(t, p.Begin(), nil)
			want(t, p.Begin(), nixl.ErrInProgress)
			want(t, p.Status(), nixl.ErrInProgress)
			want(t, p.Release(), nixl.ErrInProgress)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := p.Wait(ctx)
			want(t, err, nixl.ErrUnsettled)
			want(t, err, context.DeadlineExceeded)
			waiting := make(chan error)
			go func() { waiting <- p.Wait(t.Context()) }()
			synctest.Wait()
			p.End(end)
			want(t, <-waiting, end)
			want(t, p.Wait(ctx), end) // the result is preferred to the ended ctx
			want(t, p.Status(), end)
			cancel()
		}
		want(t, p.Release(), nil)
		want(t, p.Release(), nil)
		want(t, p.Begin(), nixl.ErrReleased)
	})
}

func TestACancelIsOfOnePost(t *testing.T) {
	var p Progress
	p.Cancel()
	if p.Begin() != nil || p.Cancelled() {
		t.Fatal("a cancel before the post counts")
	}
	if p.Cancel(); !p.Cancelled() {
		t.Fatal("a cancel does not count")
	}
	p.End(nil)
}
