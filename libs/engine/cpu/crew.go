package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// crew runs the phases of one Step on a fixed number of goroutines: the caller
// and its helpers. The helpers start in open and have ended when close returns.
//
// Items of a phase are claimed one by one, so that a helper which the machine
// holds up delays the phase by one item at most. Which goroutine computes an item
// never shows in the result.
type crew struct {
	workers []*worker // workers[0] is the caller's
	helpers []helper
	group   sync.WaitGroup
	// phase counts the jobs that were published; the last one is in job.
	phase atomic.Uint64
	job   atomic.Pointer[job]
}

// job is one phase. It is never reused: a late helper may still hold it.
type job struct {
	items   int64
	next    atomic.Int64 // the next item to claim
	pending atomic.Int64 // items that are not finished
	waiting atomic.Bool  // the caller sleeps until pending is 0
	woken   chan struct{}
	do      func(w *worker, item int)
}

type helper struct {
	asleep atomic.Bool
	wake   chan struct{}
}

// spins bounds how often a goroutine looks again, letting others run in between,
// before it sleeps: some ten microseconds.
const spins = 100

func (c *crew) open() {
	c.helpers = make([]helper, len(c.workers)-1)
	seen := c.phase.Load()
	c.job.Store(nil)
	for i := range c.helpers {
		c.helpers[i].wake = make(chan struct{}, 1)
		c.group.Go(func() { c.help(&c.helpers[i], c.workers[i+1], seen) })
	}
}

// close ends the helpers: a nil job tells them to.
func (c *crew) close() {
	c.job.Store(nil)
	c.publish()
	c.group.Wait()
}

func (c *crew) publish() {
	c.phase.Add(1)
	for i := range c.helpers {
		if h := &c.helpers[i]; h.asleep.CompareAndSwap(true, false) {
			h.wake <- struct{}{}
		}
	}
}

// run computes all items and returns when they are done. do may not panic.
func (c *crew) run(items int, do func(w *worker, item int)) {
	if items <= 1 || len(c.helpers) == 0 {
		for i := range items {
			do(c.workers[0], i)
		}
		return
	}
	j := &job{items: int64(items), do: do, woken: make(chan struct{}, 1)}
	j.pending.Store(int64(items))
	c.job.Store(j)
	c.publish()
	j.work(c.workers[0])
	for range spins {
		if j.pending.Load() == 0 {
			return
		}
		runtime.Gosched()
	}
	j.waiting.Store(true)
	if j.pending.Load() != 0 {
		<-j.woken
	}
}

// work claims items until none is left.
func (j *job) work(w *worker) {
	for {
		i := j.next.Add(1) - 1
		if i >= j.items {
			return
		}
		j.do(w, int(i))
		if j.pending.Add(-1) == 0 && j.waiting.Load() {
			j.woken <- struct{}{}
		}
	}
}

// help is the life of a helper.
func (c *crew) help(h *helper, w *worker, seen uint64) {
	for {
		seen = c.await(h, seen)
		j := c.job.Load()
		if j == nil {
			return
		}
		j.work(w)
	}
}

// await returns the number of the latest phase once it is not seen any more.
func (c *crew) await(h *helper, seen uint64) uint64 {
	for range spins {
		if now := c.phase.Load(); now != seen {
			return now
		}
		runtime.Gosched()
	}
	h.asleep.Store(true)
	if now := c.phase.Load(); now != seen && h.asleep.CompareAndSwap(true, false) {
		return now
	}
	<-h.wake
	return c.phase.Load()
}
