package mover

import (
	"context"
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
)

// The gates are asked again after stepBytes at the latest, so that a fence waits for
// some 100 µs. A short copy is counted as copyBytes, about what its overhead is worth.
const (
	stepBytes = 1 << 20
	copyBytes = 1 << 10
)

// transfer is run by one copier; done orders its results before any Wait.
type transfer struct {
	mover         *Mover
	peer          nixl.PeerID
	op            nixl.Op
	copies        []nixl.Copy
	local, remote []byte
	gates         []*gate.Gate
	cancelled     atomic.Bool

	done chan struct{}
	err  error // read after done
}

var _ nixl.Transfer = (*transfer)(nil)

// Wait is nixl.Transfer's. It prefers the result to an ended ctx.
func (t *transfer) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	default:
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return &nixl.UnsettledError{Cause: ctx.Err()}
	}
}

// Cancel is nixl.Transfer's.
func (t *transfer) Cancel() { t.cancelled.Store(true) }

// run copies within all gates and settles after it has left them.
func (t *transfer) run() {
	for i, g := range t.gates {
		if err := g.Enter(); err != nil {
			t.leave(i)
			t.settle(0, err)
			return
		}
	}
	moved, err := t.move()
	t.leave(len(t.gates))
	t.settle(moved, err)
}

func (t *transfer) leave(n int) {
	for _, g := range t.gates[:n] {
		g.Leave()
	}
}

func (t *transfer) move() (moved uint64, err error) {
	if err := t.stopped(); err != nil {
		return 0, err
	}
	budget := stepBytes
	for _, c := range t.copies {
		local := t.local[c.Local.Offset : c.Local.Offset+c.Local.Bytes]
		remote := t.remote[c.Remote.Offset : c.Remote.Offset+c.Remote.Bytes]
		for len(local) > 0 {
			if budget <= 0 {
				if err := t.stopped(); err != nil {
					return moved, err
				}
				budget = stepBytes
			}
			n := min(len(local), stepBytes)
			if t.op == nixl.Write {
				copy(remote[:n], local[:n])
			} else {
				copy(local[:n], remote[:n])
			}
			local, remote = local[n:], remote[n:]
			moved += uint64(n)
			budget -= max(n, copyBytes)
		}
	}
	return moved, nil
}

// stopped returns why the transfer is to end, if it is.
func (t *transfer) stopped() error {
	if t.cancelled.Load() {
		return nixl.ErrCancelled
	}
	for _, g := range t.gates {
		if err := g.Err(); err != nil {
			return err
		}
	}
	return t.mover.posting.Err()
}

func (t *transfer) settle(moved uint64, err error) {
	var d nixl.Counters
	if t.op == nixl.Write {
		d.BytesWritten = moved
	} else {
		d.BytesRead = moved
	}
	if err != nil {
		d.TransfersAborted = 1
		t.err = &nixl.AbortedError{Cause: err}
	} else {
		d.Transfers = 1
	}
	t.mover.ledger.Add(t.peer, d)
	close(t.done)
}
