package mover

import (
	"context"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/progress"
)

// The gates are asked again after stepBytes at the latest, so that a fence waits for
// some 100 µs. A short copy is counted as copyBytes, about what its overhead is worth.
const (
	stepBytes = 1 << 20
	copyBytes = 1 << 10
)

// transfer is run by one copier at a time.
type transfer struct {
	progress.Progress
	Spec
	mover         *Mover
	local, remote []byte
	gates         []*gate.Gate
}

var _ nixl.Transfer = (*transfer)(nil)

// Post is nixl.Transfer's.
func (t *transfer) Post(ctx context.Context) error {
	for _, g := range t.gates {
		if err := g.Err(); err != nil {
			return fmt.Errorf("%s %s: %w", t.Op, t.Peer, err)
		}
	}
	if err := t.Begin(); err != nil {
		return fmt.Errorf("%s %s: %w", t.Op, t.Peer, err)
	}
	err := t.mover.enqueue(ctx, t)
	if err != nil {
		t.End(&nixl.AbortedError{Cause: err})
	}
	return err
}

// Release is nixl.Transfer's.
func (t *transfer) Release() error {
	err := t.Progress.Release()
	if err != nil {
		t.Cancel()
		return fmt.Errorf("release a transfer with %s: %w", t.Peer, err)
	}
	return nil
}

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
	for i := range t.Runs.Len() {
		c := t.Runs.At(i)
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
			if t.Op == nixl.Write {
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
	if t.Cancelled() {
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
	if t.Op == nixl.Write {
		d.BytesWritten = moved
	} else {
		d.BytesRead = moved
	}
	if err != nil {
		d.TransfersAborted = 1
		err = &nixl.AbortedError{Cause: err}
	} else {
		d.Transfers = 1
	}
	t.mover.ledger.Add(t.Peer, d)
	t.End(err)
}
