// Package gate counts the users of something that may be taken away: memory that
// is to be unmapped, a peer that is to be fenced off. It starts no goroutine.
package gate

import (
	"context"
	"sync"
	"sync/atomic"
)

// Gate lets users in until it is shut, and tells when the last has left. The zero
// value is open. Its methods may be called concurrently.
type Gate struct {
	cause atomic.Pointer[error] // set once, under mu; read without it

	mu    sync.Mutex // guards users and idle
	users int
	idle  chan struct{} // made by the first Shut, closed when no user is left
}

// Enter admits a user, who must Leave, or returns the cause with which the gate was shut.
func (g *Gate) Enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.Err(); err != nil {
		return err
	}
	g.users++
	return nil
}

// Leave ends what Enter began.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users--
	if g.users == 0 && g.idle != nil {
		close(g.idle)
	}
}

// Shut refuses all further users and returns a channel that is closed once none is
// left. The cause of the first call stays.
func (g *Gate) Shut(cause error) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle == nil {
		g.cause.Store(&cause)
		g.idle = make(chan struct{})
		if g.users == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

// Wait waits for what Shut returned while ctx lasts. An idle gate is told even when ctx has ended.
func Wait(ctx context.Context, idle <-chan struct{}) error {
	select {
	case <-idle:
		return nil
	default:
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Err is nil while the gate is open. A user asks it between the steps of its work.
func (g *Gate) Err() error {
	if cause := g.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}
