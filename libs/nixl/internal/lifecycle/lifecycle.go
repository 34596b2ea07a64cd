// Package lifecycle is the order of Run and Close that all agents share: one Run,
// any number of Closes, one clean-up after the last goroutine.
package lifecycle

import (
	"context"
	"errors"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Life is made by New. Its methods may be called concurrently.
type Life struct {
	cleanUp func() error

	started chan struct{} // closed when Run begins
	closing chan struct{} // closed when the agent is to end
	ended   chan struct{} // closed after the clean-up

	mu      sync.Mutex // guards all below
	running bool
	closed  bool
	err     error // of the clean-up; read after ended
}

// New makes a life that ends with cleanUp, called once, when no goroutine of Run is left.
func New(cleanUp func() error) *Life {
	return &Life{
		cleanUp: cleanUp,
		started: make(chan struct{}), closing: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Run calls body with a context that ends with ctx or at Close, then cleans up. It
// returns body's error and the clean-up's.
func (l *Life) Run(ctx context.Context, body func(context.Context) error) error {
	l.mu.Lock()
	if l.closed || l.running {
		defer l.mu.Unlock()
		if l.closed {
			return nixl.ErrClosed
		}
		return errors.New("nixl: Run was called twice")
	}
	l.running = true
	close(l.started)
	l.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-l.closing:
			cancel()
		case <-ctx.Done():
			l.shut()
		case <-stop:
		}
	})
	err := body(ctx)
	close(stop)
	watch.Wait()
	l.shut()
	return errors.Join(err, l.end())
}

// shut marks the agent as closed.
func (l *Life) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
}

func (l *Life) end() error {
	l.err = l.cleanUp()
	close(l.ended)
	return l.err
}

// Close makes Run end and waits until all is cleaned up. The errors of a
// clean-up after Run are Run's to return.
func (l *Life) Close() error {
	l.mu.Lock()
	first, running := !l.closed, l.running
	if first {
		l.closed = true
		close(l.closing)
	}
	l.mu.Unlock()
	if first && !running {
		return l.end()
	}
	<-l.ended
	return nil
}

// Started waits for Run to begin while ctx lasts.
func (l *Life) Started(ctx context.Context) error {
	select {
	case <-l.closing:
		return nixl.ErrClosed
	default:
	}
	select {
	case <-l.started:
		return nil
	case <-l.closing:
		return nixl.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Closing is closed when the agent is to end.
func (l *Life) Closing() <-chan struct{} { return l.closing }

// Err is ErrClosed once the agent is to end.
func (l *Life) Err() error {
	select {
	case <-l.closing:
		return nixl.ErrClosed
	default:
		return nil
	}
}
