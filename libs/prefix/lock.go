package prefix

import (
	"sync"
	"sync/atomic"
)

// lock is a sync.RWMutex for a change of many short steps beside lookups. Steps and lookups take microseconds, and to
// fall asleep and be woken takes ten times that; so they first look, for about as long as it should take, whether the
// way is free. That is a courtesy: what is held by whom only the mutex knows.
type lock struct {
	_       [64]byte // those who look shall not slow down what lies beside
	coming  atomic.Bool
	waiting atomic.Int32 // lookups that let a step pass
	mu      sync.RWMutex
	_       [64]byte
}

// How often to look whether the way is free. Where there are more goroutines than cores it may be in vain.
const (
	enterLooks  = 1 << 12 // some microseconds, longer than it takes to see that a step is over
	lookupLooks = 1 << 10 // some more, longer than a lookup takes
	stepLooks   = 1 << 17 // some tens of microseconds, longer than a step takes
	turnLooks   = 1 << 13 // about as long: most changes are one step
)

// await looks so many times.
func await(looks int, free func() bool) bool {
	for range looks {
		if free() {
			return true
		}
	}
	return false
}

// Lock lets the lookups that wait go first, then keeps new ones away until those that are on have ended.
func (l *lock) Lock() {
	await(enterLooks, func() bool { return l.waiting.Load() == 0 })
	l.coming.Store(true)
	if !await(lookupLooks, l.mu.TryLock) {
		l.mu.Lock()
	}
}

func (l *lock) Unlock() {
	l.mu.Unlock()
	l.coming.Store(false)
}

// RLock waits for at most one step of a change, unless there are very many lookups.
func (l *lock) RLock() {
	if !l.coming.Load() {
		l.mu.RLock()
		return
	}
	l.waiting.Add(1)
	await(stepLooks, func() bool { return !l.coming.Load() })
	l.mu.RLock()
	l.waiting.Add(-1)
}

func (l *lock) RUnlock() { l.mu.RUnlock() }

// turn is a sync.Mutex for whole changes, for which others wait awake for a while, too.
type turn struct {
	_  [64]byte
	mu sync.Mutex
	_  [64]byte
}

func (t *turn) Lock() {
	if !await(turnLooks, t.mu.TryLock) {
		t.mu.Lock()
	}
}

func (t *turn) Unlock() { t.mu.Unlock() }
