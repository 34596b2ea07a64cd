package prefix

import (
	"sync"
	"sync/atomic"
)

// lock is a sync.RWMutex for a change of many short steps beside lookups. Steps and lookups take microseconds, and to
// fall asleep and be woken takes ten times that; so they first look, for about as long as it can take, whether the way
// is free. That is a courtesy: what is held by whom only the mutex knows.
type lock struct {
	_       [64]byte // those who look shall not slow down what lies beside
	coming  atomic.Bool
	waiting atomic.Int32 // lookups that let a step pass
	mu      sync.RWMutex
	_       [64]byte
}

const (
	// lookupTries are some microseconds, longer than a lookup takes.
	lookupTries = 1 << 12
	// stepTries are some tens of microseconds, longer than a step takes.
	stepTries = 1 << 17
)

// Lock lets the lookups that wait go first, then keeps new ones away until those that are on have ended.
func (l *lock) Lock() {
	for i := 0; i < lookupTries && l.waiting.Load() > 0; i++ {
	}
	l.coming.Store(true)
	for range lookupTries {
		if l.mu.TryLock() {
			return
		}
	}
	l.mu.Lock()
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
	for i := 0; i < stepTries && l.coming.Load(); i++ {
	}
	l.mu.RLock()
	l.waiting.Add(-1)
}

func (l *lock) RUnlock() { l.mu.RUnlock() }
