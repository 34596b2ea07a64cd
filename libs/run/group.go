package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Group runs the parts of a service side by side. The first part that fails ends all; a
// part that returns nil ends alone.
type Group struct {
	ctx    context.Context // of the parts; kept because Go hands it to each
	cancel context.CancelFunc
	parts  sync.WaitGroup

	mu  sync.Mutex
	err error // the first failure
}

// NewGroup returns a group and the context of its parts, which ends with ctx, with the
// first failure, or when Wait returns.
func NewGroup(ctx context.Context) (*Group, context.Context) {
	inner, cancel := context.WithCancel(ctx)
	return &Group{ctx: inner, cancel: cancel}, inner
}

// Go runs f in a goroutine of its own with the group's context; name appears in its
// error. What f returns for the end of that context is no failure.
func (g *Group) Go(name string, f func(context.Context) error) {
	g.parts.Go(func() {
		err := f(g.ctx)
		if err == nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.err != nil || g.ctx.Err() != nil && errors.Is(err, g.ctx.Err()) {
			return
		}
		g.err = fmt.Errorf("%s: %w", name, err)
		g.cancel()
	})
}

// Wait blocks until all parts have ended and returns the first failure. It is called
// once, after the last Go.
func (g *Group) Wait() error {
	g.parts.Wait()
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
