//go:build cgo && linux

package capi

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// writer is a peer that holds keys to our memory and has not been proven quiet. It
// outlives its links.
type writer struct{ quiet chan struct{} } // closed on the proof

// afterFailure is the time in which UCX takes in what came before the end of a connection, if
// it had not when it told of the end.
const afterFailure = 200 * time.Millisecond

// overConnections tells whether UCX is held to TCP, by whose settings every endpoint is a
// connection of its own.
func overConnections() bool {
	tcp := false
	for name := range strings.SplitSeq(os.Getenv("UCX_TLS"), ",") {
		tcp = tcp || name == "tcp"
		if name != "tcp" && name != "self" {
			return false
		}
	}
	return tcp
}

// quiet is the proof that a peer writes no more. The caller holds mu.
func (p *peer) quiet() {
	if p.writer != nil {
		close(p.writer.quiet)
		p.writer = nil
	}
}

// prove ends a writer whose connection has ended. The caller holds mu.
func (a *agent) prove(p *peer, now time.Time) {
	if a.connection && !p.severed.IsZero() && now.Sub(p.severed) > afterFailure {
		p.quiet()
	}
}

// Fence waits for a proof and then refuses the incarnation, under the lock under which
// peers are welcomed. Without a proof nothing changes.
func (a *agent) Fence(ctx context.Context, id nixl.PeerID) error {
	for {
		quiet, err := a.tryFence(id)
		if err != nil || quiet == nil {
			return err
		}
		select {
		case <-quiet:
		case <-ctx.Done():
			return fmt.Errorf("fence %s: %w: it holds keys to our memory (%w)", id, nixl.ErrStillAlive, ctx.Err())
		}
	}
}

func (a *agent) tryFence(id nixl.PeerID) (quiet <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, fmt.Errorf("fence %s: %w", id, nixl.ErrClosed)
	}
	if p := a.peers[id]; p != nil && p.writer != nil {
		return p.writer.quiet, nil
	}
	a.fenced[id] = true
	return nil, nil
}

// Revoke has no proof as long as the peer holds keys to our memory.
func (a *agent) Revoke(_ context.Context, id nixl.PeerID, number uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.peers[id]; p != nil && p.writer != nil {
		return fmt.Errorf("revoke grant %d of %s: %w: it holds keys to our memory", number, id, nixl.ErrStillAlive)
	}
	return nil
}
