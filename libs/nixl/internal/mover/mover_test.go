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
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
)

var info = nixl.RegionInfo{Layout: block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: 32, ElemBytes: 1}, Blocks: 4}

func memory() *region.Region {
	return region.New(0, info, make([]byte, info.Bytes()), func([]byte) error { return nil })
}

func request() nixl.Request {
	s := block.Span{Bytes: info.Bytes()}
	return nixl.Request{Copies: []nixl.Copy{{Local: s, Remote: s}}}
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
	transfer, err := m.Post(t.Context(), request(), local, remote, gates...)
	if err != nil {
		t.Fatal(err)
	}
	return transfer
}

func TestEndOfAWaitDoesNotEndTheTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := idle(t)
		local, remote := memory(), memory()
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
				local, remote, g := memory(), memory(), new(gate.Gate)
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
		first, second := post(t, m, memory(), memory()), post(t, m, memory(), memory())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.Post(ctx, request(), memory(), memory()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a full queue took a transfer: %v", err)
		}
		waiting := make(chan error)
		go func() {
			_, err := m.Post(t.Context(), request(), memory(), memory())
			waiting <- err
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

func TestPostKeepsItsOwnCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := idle(t)
		local, remote, r := memory(), memory(), request()
		local.Bytes()[0] = 1
		transfer, err := m.Post(t.Context(), r, local, remote)
		if err != nil {
			t.Fatal(err)
		}
		r.Copies[0].Remote.Offset = 1 << 40
		running, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { m.Run(running); close(ended) }()
		if err := transfer.Wait(t.Context()); err != nil || remote.Bytes()[0] != 1 {
			t.Fatal("the caller's later change reached the transfer", err)
		}
		stop()
		<-ended
	})
}
