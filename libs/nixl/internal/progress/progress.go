// Package progress is the state of a transfer between its posts and its release, as
// all transports show it. It starts no goroutine.
package progress

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Progress of a transfer that was not posted yet is the zero value. Its methods may be
// called concurrently.
type Progress struct {
	cancelled atomic.Bool

	mu       sync.Mutex    // guards all below
	done     chan struct{} // of the latest post; nil before the first
	settled  bool
	released bool
	err      error
}

// Begin starts a post; End must follow.
func (p *Progress) Begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.released:
		return nixl.ErrReleased
	case p.done != nil && !p.settled:
		return nixl.ErrInProgress
	}
	p.cancelled.Store(false)
	p.done, p.settled, p.err = make(chan struct{}), false, nil
	return nil
}

// End settles the post with the answer of its Waits.
func (p *Progress) End(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled, p.err = true, err
	close(p.done)
}

// Status is nixl.Transfer's.
func (p *Progress) Status() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.done == nil:
		return nixl.ErrNotPosted
	case !p.settled:
		return nixl.ErrInProgress
	}
	return p.err
}

// Wait is nixl.Transfer's. It prefers the result to an ended ctx.
func (p *Progress) Wait(ctx context.Context) error {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return nixl.ErrNotPosted
	}
	select {
	case <-done:
		return p.Status()
	default:
	}
	select {
	case <-done:
		return p.Status()
	case <-ctx.Done():
		return &nixl.UnsettledError{Cause: ctx.Err()}
	}
}

// Cancel asks the post in progress to end.
func (p *Progress) Cancel() { p.cancelled.Store(true) }

// Cancelled tells whether the latest post was asked to end.
func (p *Progress) Cancelled() bool { return p.cancelled.Load() }

// Release refuses further posts. ErrInProgress: a post is in progress, and was not released.
func (p *Progress) Release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done != nil && !p.settled {
		return nixl.ErrInProgress
	}
	p.released = true
	return nil
}
