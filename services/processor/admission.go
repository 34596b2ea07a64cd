package processor

import (
	"context"
	"sync"
)

// admission counts the requests in work.
type admission struct {
	max int

	mu     sync.Mutex
	active int
	idle   chan struct{} // closed when active is 0; nil while nobody waits
}

// enter admits a request, unless there are too many.
func (a *admission) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.active >= a.max {
		return false
	}
	a.active++
	return true
}

func (a *admission) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.active--; a.active == 0 && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
}

// wait waits until no request is in work or ctx ends.
func (a *admission) wait(ctx context.Context) {
	a.mu.Lock()
	if a.active == 0 {
		a.mu.Unlock()
		return
	}
	if a.idle == nil {
		a.idle = make(chan struct{})
	}
	idle := a.idle
	a.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
