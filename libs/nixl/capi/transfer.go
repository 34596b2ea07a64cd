//go:build cgo && linux

package capi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi/internal/native"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
)

// transfer is a request of NIXL's. Between a post and its end only the poller uses it.
type transfer struct {
	agent *agent
	link  *link
	op    nixl.Op
	local *region.Region
	bytes uint64
	empty bool // nothing to move, and no request

	mu       sync.Mutex // guards all below
	request  native.Request
	held     bool          // request is to be released
	done     chan struct{} // of the latest post; nil before the first
	settled  bool
	released bool
	err      error
}

var _ nixl.Transfer = (*transfer)(nil)

func (t *transfer) wrap(err error) error {
	return fmt.Errorf("%s %s: %w", t.op, t.link.peer.id, err)
}

// Post is nixl.Transfer's.
func (t *transfer) Post(ctx context.Context) error {
	if err := t.link.gate.Err(); err != nil {
		return t.wrap(err)
	}
	if err := t.begin(); err != nil {
		return t.wrap(err)
	}
	if err := t.start(ctx); err != nil {
		t.end(&nixl.AbortedError{Cause: err})
		return t.wrap(err)
	}
	return nil
}

func (t *transfer) begin() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.released:
		return nixl.ErrReleased
	case t.done != nil && !t.settled:
		return nixl.ErrInProgress
	}
	t.done, t.settled, t.err = make(chan struct{}), false, nil
	return nil
}

// start waits for a place, enters the gates and posts. On an error it has left them.
func (t *transfer) start(ctx context.Context) error {
	if err := t.agent.place(ctx); err != nil {
		return err
	}
	if err := t.link.gate.Enter(); err != nil {
		<-t.agent.slots
		return err
	}
	if err := t.local.Gate.Enter(); err != nil {
		t.link.gate.Leave()
		<-t.agent.slots
		return err
	}
	var err error
	if !t.empty {
		t.agent.calls.RLock()
		err = t.agent.native.Post(t.request)
		t.agent.calls.RUnlock()
	}
	if errors.Is(err, native.InProgress) {
		t.agent.poller.add(t)
		return nil
	}
	t.settle(err) // some bytes may have moved before an error
	return nil
}

// place waits for a place among the transfers in flight.
func (a *agent) place(ctx context.Context) error {
	select {
	case a.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-a.life.Closing():
		return nixl.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("wait for a place among %d transfers in flight: %w", cap(a.slots), ctx.Err())
	}
}

// settle is the end of a post, as NIXL told it. An error there is one of the endpoint: UCX
// has ended all that went through it at this side, so that a read is quiet. Bytes of a
// write that had left may still be on their way. How many have moved nobody tells, and none
// are counted.
func (t *transfer) settle(err error) {
	a, id := t.agent, t.link.peer.id
	d := nixl.Counters{Transfers: 1}
	switch {
	case err != nil:
		a.fail(t.link.peer, err)
		d = nixl.Counters{TransfersAborted: 1}
		err = fmt.Errorf("%w: %w", nixl.ErrGone, err)
		if t.op == nixl.Read {
			err = &nixl.AbortedError{Cause: err}
		} else {
			err = &nixl.UnsettledError{Cause: err}
		}
	case t.op == nixl.Write:
		d.BytesWritten = t.bytes
	default:
		d.BytesRead = t.bytes
	}
	a.ledger.Add(id, d)
	t.local.Gate.Leave()
	t.link.gate.Leave()
	<-a.slots
	t.end(err)
	if t.link.handles.isClosed() {
		t.drop()
		if t.link.handles.remove(t) {
			a.mu.Lock()
			t.link.peer.orphans--
			a.mu.Unlock()
		}
	}
}

func (t *transfer) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled, t.err = true, err
	close(t.done)
}

// Status is nixl.Transfer's.
func (t *transfer) Status() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.done == nil:
		return nixl.ErrNotPosted
	case t.settled:
		return t.err
	}
	select {
	case <-t.link.orphaned:
		return &nixl.UnsettledError{Cause: t.link.cause}
	default:
		return nixl.ErrInProgress
	}
}

// Wait is nixl.Transfer's. It prefers the result to all else.
func (t *transfer) Wait(ctx context.Context) error {
	t.mu.Lock()
	done := t.done
	t.mu.Unlock()
	if done == nil {
		return nixl.ErrNotPosted
	}
	select {
	case <-done:
		return t.Status()
	default:
	}
	select {
	case <-done:
		return t.Status()
	case <-t.link.orphaned:
		return &nixl.UnsettledError{Cause: t.link.cause}
	case <-ctx.Done():
		return &nixl.UnsettledError{Cause: ctx.Err()}
	}
}

// Cancel has nothing to do: a post has started all copies, and NIXL cannot stop them.
func (t *transfer) Cancel() {}

// Release is nixl.Transfer's.
func (t *transfer) Release() error {
	t.mu.Lock()
	if t.done != nil && !t.settled {
		t.mu.Unlock()
		return fmt.Errorf("release a transfer with %s: %w", t.link.peer.id, nixl.ErrInProgress)
	}
	t.released = true
	t.mu.Unlock()
	t.drop()
	t.link.handles.remove(t)
	return nil
}

// drop gives the request back to NIXL, unless it is in flight.
func (t *transfer) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held || t.done != nil && !t.settled {
		return
	}
	t.held = false
	t.agent.calls.RLock()
	defer t.agent.calls.RUnlock()
	if t.agent.destroyed {
		return
	}
	if err := t.agent.native.Release(t.request); err != nil { // it stays NIXL's until the agent's end
		t.agent.config.Logger.Warn("nixl request not released", "transport", transport, "peer", t.link.peer.id.String(), "error", err)
	}
}
