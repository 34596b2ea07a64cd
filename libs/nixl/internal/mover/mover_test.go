package mover

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/ledger"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/list"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

var info = nixl.RegionInfo{Layout: block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: 32, ElemBytes: 1}, Blocks: 4}

func mapped(t *testing.T) *region.Region {
	t.Helper()
	m, err := memory.Anonymous(info.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return region.New(0, info, m)
}

func whole() []nixl.Copy {
	s := block.Span{Bytes: info.Bytes()}
	return []nixl.Copy{{Local: s, Remote: s}}
}

func spec(t *testing.T) Spec {
	return Spec{Runs: list.Of(whole()), Local: mapped(t), Remote: mapped(t)}
}

// idle is a mover whose Run does not run yet.
func idle(t *testing.T) (*Mover, *ledger.Ledger) {
	t.Helper()
	c, err := nixl.Config{Name: "a", Incarnation: "1", KVFormat: "f", Transfers: 2}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	l := new(ledger.Ledger)
	return New(c, l), l
}

func post(t *testing.T, m *Mover, local, remote *region.Region, gates ...*gate.Gate) nixl.Transfer {
	t.Helper()
	transfer := m.New(Spec{Runs: list.Of(whole()), Local: local, Remote: remote, Gates: gates})
	if err := transfer.Post(t.Context()); err != nil {
		t.Fatal(err)
	}
	return transfer
}

func TestEndOfAWaitDoesNotEndTheTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := idle(t)
		local, remote := mapped(t), mapped(t)
		copy(local.Bytes(), "some bytes")
		transfer := post(t, m, local, remote)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := transfer.Wait(ctx)
		var unsettled *nixl.UnsettledError
		if !errors.Is(err, nixl.ErrUnsettled) || errors.Is(err, nixl.ErrAborted) || !errors.As(err, &unsettled) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want an UnsettledError", err)
		}
		running, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { m.Run(running); close(ended) }()
		if err := transfer.Wait(t.Context()); err != nil || !bytes.Equal(local.Bytes(), remote.Bytes()) {
			t.Fatalf("the transfer did not complete: %v", err)
		}
		transfer.Cancel()
		if err := transfer.Wait(ctx); err != nil { // ctx has ended; the result is preferred
			t.Fatalf("a finished transfer became %v", err)
		}
		stop()
		<-ended
		if got := l.Stats().Counters; got != (nixl.Counters{BytesWritten: uint64(info.Bytes()), Transfers: 1}) {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestWhatEndsATransferEarly(t *testing.T) {
	why := errors.New("why")
	for name, c := range map[string]struct {
		end  func(nixl.Transfer, *gate.Gate, *region.Region)
		want error
	}{
		"cancel": {func(transfer nixl.Transfer, _ *gate.Gate, _ *region.Region) { transfer.Cancel() }, nixl.ErrCancelled},
		"gate":   {func(_ nixl.Transfer, g *gate.Gate, _ *region.Region) { g.Shut(why) }, why},
		"region": {func(_ nixl.Transfer, _ *gate.Gate, r *region.Region) { r.Close() }, nixl.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, l := idle(t)
				local, remote, g := mapped(t), mapped(t), new(gate.Gate)
				local.Bytes()[0] = 1
				transfer := post(t, m, local, remote, g)
				c.end(transfer, g, remote)
				running, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { m.Run(running); close(ended) }()
				err := transfer.Wait(t.Context())
				var aborted *nixl.AbortedError
				if !errors.Is(err, nixl.ErrAborted) || errors.Is(err, nixl.ErrUnsettled) || !errors.As(err, &aborted) || !errors.Is(err, c.want) {
					t.Fatalf("got %v, want an AbortedError for %v", err, c.want)
				}
				if remote.Bytes()[0] != 0 || l.Stats().TransfersAborted != 1 || l.Stats().BytesWritten != 0 {
					t.Fatalf("bytes moved: %+v", l.Stats())
				}
				<-g.Shut(why) // the copier has left
				stop()
				<-ended
			})
		})
	}
}

func TestEndSettlesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := idle(t)
		first, second := post(t, m, mapped(t), mapped(t)), post(t, m, mapped(t), mapped(t))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.New(spec(t)).Post(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a full queue took a transfer: %v", err)
		}
		waiting := make(chan error)
		go func() {
			waiting <- m.New(spec(t)).Post(t.Context())
		}()
		synctest.Wait()
		m.End()
		for _, transfer := range []nixl.Transfer{first, second} {
			if err := transfer.Wait(t.Context()); !errors.Is(err, nixl.ErrAborted) || !errors.Is(err, nixl.ErrClosed) {
				t.Fatalf("got %v", err)
			}
		}
		if err := <-waiting; err != nixl.ErrClosed {
			t.Fatalf("a waiting Post got %v", err)
		}
	})
}

func TestATransferKeepsItsOwnCopies(t *testing.T) {
	copies := whole()
	runs := list.Of(copies)
	copies[0].Remote.Offset = 1 << 40
	if got := runs.At(0); got != whole()[0] {
		t.Fatalf("the caller's later change reached the transfer: %+v", got)
	}
}

func TestAPostThatFindsNoPlaceCanBeTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := idle(t)
		post(t, m, mapped(t), mapped(t))
		post(t, m, mapped(t), mapped(t))
		s := spec(t)
		s.Local.Bytes()[0] = 1
		transfer := m.New(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := transfer.Post(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a full queue took a transfer: %v", err)
		}
		if err := transfer.Status(); !errors.Is(err, nixl.ErrAborted) {
			t.Fatalf("got %v", err)
		}
		running, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { m.Run(running); close(ended) }()
		if err := errors.Join(transfer.Post(t.Context()), transfer.Wait(t.Context())); err != nil || s.Remote.Bytes()[0] != 1 {
			t.Fatal("the transfer did not complete", err)
		}
		stop()
		<-ended
	})
}
