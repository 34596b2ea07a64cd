//go:build linux

package shm

import (
	"context"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// writer is a process that was given our memory and has not been proven quiet.
// It outlives its connection.
type writer struct {
	process
	quiet chan struct{} // closed on the proof: its end, or its goodbye
}

// admit takes a connection in. A peer has one at a time: a former one that has not
// been read to its end yet is waited for.
func (a *agent) admit(ctx context.Context, c *conn, p process) error {
	for {
		former, err := a.tryAdmit(c, p)
		if err == nil && former == nil {
			return nil
		}
		if err != nil {
			p.pidfd.Close()
			return err
		}
		select {
		case <-former:
		case <-c.quit:
			p.pidfd.Close()
			return nixl.ErrGone
		case <-ctx.Done():
			p.pidfd.Close()
			return fmt.Errorf("%s is connected already", c.peer)
		}
	}
}

// tryAdmit returns the end of the former connection if that is in the way.
func (a *agent) tryAdmit(c *conn, p process) (former <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.writers[c.peer]
	same := w != nil && w.pid == p.pid && p.pid > 0 // 0 is any process of another pid namespace
	switch {
	case a.ended:
		return nil, fmt.Errorf("%w: the agent is closed", nixl.ErrGone)
	case a.fenced[c.peer]:
		return nil, nixl.ErrFenced
	case w != nil && !same && !w.process.ended():
		return nil, fmt.Errorf("%s is the living process %d, not %d", c.peer, w.pid, p.pid)
	case a.in[c.peer] != nil:
		return a.in[c.peer].ended, nil
	}
	a.in[c.peer] = c
	if same {
		p.pidfd.Close() // still the same process
		return nil, nil
	}
	w = &writer{p, make(chan struct{})}
	a.writers[c.peer] = w
	a.tasks.Go(func() {
		if w.wait() {
			a.prove(c.peer, w)
		}
	})
	return nil, nil
}

// quiet takes the peer's word that it has unmapped our memory.
func (a *agent) quiet(peer nixl.PeerID) {
	a.mu.Lock()
	w := a.writers[peer]
	a.mu.Unlock()
	if w != nil {
		a.prove(peer, w)
	}
}

// prove ends a writer; either proof may come first.
func (a *agent) prove(peer nixl.PeerID, w *writer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-w.quiet:
		return
	default:
	}
	close(w.quiet)
	w.pidfd.Close()
	if a.writers[peer] == w {
		delete(a.writers, peer)
	}
}

// Fence waits for a proof and then refuses the incarnation, under the lock under which
// connections are admitted. Without a proof nothing changes.
func (a *agent) Fence(ctx context.Context, peer nixl.PeerID) error {
	for {
		quiet, err := a.tryFence(peer)
		if err != nil || quiet == nil {
			return err
		}
		select {
		case <-quiet:
		case <-ctx.Done():
			return fmt.Errorf("fence %s: %w: its process has our memory mapped (%w)", peer, nixl.ErrStillAlive, ctx.Err())
		}
	}
}

func (a *agent) tryFence(peer nixl.PeerID) (quiet <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, fmt.Errorf("fence %s: %w", peer, nixl.ErrClosed)
	}
	w := a.writers[peer]
	if w != nil && !w.process.ended() {
		return w.quiet, nil
	}
	a.fenced[peer] = true
	return nil, nil
}

// Revoke has no proof as long as the peer may have our memory mapped.
func (a *agent) Revoke(_ context.Context, peer nixl.PeerID, number uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.writers[peer]; w != nil && !w.process.ended() {
		return fmt.Errorf("revoke grant %d of %s: %w: its process has our memory mapped", number, peer, nixl.ErrStillAlive)
	}
	return nil
}
