package decodeworker

import "sync"

// intake counts the sequences on this worker. Once closed it lets no more in and tells
// when the last one has ended.
type intake struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed when closed is set and running is 0
}

func newIntake() *intake { return &intake{idle: make(chan struct{})} }

// enter counts one sequence; false: the worker takes no more.
func (i *intake) enter() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	i.running++
	return true
}

// leave takes back one enter.
func (i *intake) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running--
	i.look()
}

// close lets nobody in any more. The channel closes once nobody is left.
func (i *intake) close() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.closed = true
		i.look()
	}
	return i.idle
}

func (i *intake) look() {
	if i.closed && i.running == 0 {
		close(i.idle)
	}
}
