package prefix

import (
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// change is one call of Store or Remove.
type change struct {
	removes bool
	slot    Slot
	tier    Tier
	parent  block.Hash
	blocks  []block.Hash
}

// handed is a change that waits for whoever makes one now to make it as well: what a change touches is in that core's
// caches, and to fetch it for every change from one core to another takes longer than most changes.
type handed struct {
	state atomic.Uint32
	change
	_ [64]byte
}

// How far a place for a change is: whoever takes it fills it in, and frees it once the change is made.
const (
	handedFree uint32 = iota
	handedTaken
	handedReady
	handedMade
)

// handedMost is how many changes wait so at a time; more wait for their turn.
const handedMost = 4

// do makes a change, or has it made.
func (x *Index) do(c change) {
	if x.changes.mu.TryLock() {
		x.apply(&c)
		x.applyHanded()
		x.changes.Unlock()
		return
	}
	for i := range x.handed {
		if h := &x.handed[i]; h.state.CompareAndSwap(handedFree, handedTaken) {
			h.change = c
			h.state.Store(handedReady)
			x.awaitMade(h)
			h.change = change{} // its blocks are the caller's
			h.state.Store(handedFree)
			return
		}
	}
	x.changes.Lock()
	x.apply(&c)
	x.applyHanded()
	x.changes.Unlock()
}

// awaitMade returns when the change is made, by whoever has the turn or else by this caller.
func (x *Index) awaitMade(h *handed) {
	own := false
	if await(turnLooks, func() bool {
		if h.state.Load() == handedMade {
			return true
		}
		own = x.changes.mu.TryLock()
		return own
	}) && !own {
		return
	}
	if !own {
		x.changes.mu.Lock()
	}
	x.applyHanded()
	x.changes.Unlock()
}

// applyHanded makes the changes that were handed over until now; its caller has the turn.
func (x *Index) applyHanded() {
	for i := range x.handed {
		if h := &x.handed[i]; h.state.Load() == handedReady {
			x.apply(&h.change)
			h.state.Store(handedMade)
		}
	}
}

// apply makes a change; its caller has the turn.
func (x *Index) apply(c *change) {
	switch {
	case !x.known(c.slot) || c.tier >= Tiers:
	case c.removes:
		x.removeAll(laneOf(c.slot, c.tier), c.blocks)
	default:
		x.storeAll(laneOf(c.slot, c.tier), c.parent, c.blocks)
	}
}
