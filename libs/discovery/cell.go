package discovery

import (
	"context"
	"iter"
	"sync"
)

// cell holds a value that one goroutine stores and any number read and watch.
type cell[T any] struct {
	mu      sync.Mutex
	value   T
	set     bool
	changed chan struct{} // closed at the next store
}

func newCell[T any](initial T) *cell[T] {
	return &cell[T]{value: initial, changed: make(chan struct{})}
}

func (c *cell[T]) load() T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value
}

func (c *cell[T]) store(v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.set = v, true
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cell[T]) state() (v T, set bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.set, c.changed
}

// ready waits for the first store.
func (c *cell[T]) ready(ctx context.Context) error {
	for {
		_, set, changed := c.state()
		if set {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch yields the value from the first store on, and again after it changed. A slow
// reader skips values but always gets the last one.
func (c *cell[T]) watch(ctx context.Context) iter.Seq[T] {
	return func(yield func(T) bool) {
		for {
			v, set, changed := c.state()
			if set && !yield(v) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}
