package router

import (
	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// holder is what an event speaks of: a decode or a prefill worker.
type holder struct {
	index  *prefix.Index
	slot   prefix.Slot
	decode *worker // nil for a prefill worker
}

func (r *Router) holder(id WorkerID) (holder, bool) {
	if w := r.byID[id]; w != nil {
		return holder{r.held, w.slot, w}, w.Events
	}
	for _, p := range r.prefills {
		if p.ID == id {
			return holder{r.remote, p.slot, nil}, p.Events
		}
	}
	return holder{}, false
}

// Stored takes in that a worker holds consecutive blocks, the first of which comes after
// parent. Events of a worker that is not known, or that publishes none, are ignored.
func (r *Router) Stored(id WorkerID, tier prefix.Tier, parent block.Hash, chain []block.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.holder(id)
	if !ok {
		return
	}
	h.index.Store(h.slot, tier, parent, chain)
	if h.decode != nil && tier == prefix.Device {
		h.decode.held += len(chain)
		r.waits.stored(h.decode, chain)
	}
}

// Removed takes in that a worker holds blocks no more.
func (r *Router) Removed(id WorkerID, tier prefix.Tier, hashes []block.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.holder(id)
	if !ok {
		return
	}
	h.index.Remove(h.slot, tier, hashes)
	if h.decode != nil && tier == prefix.Device {
		h.decode.held -= len(hashes)
	}
}

// Reset takes in that a worker holds nothing, or that what it holds is told anew.
func (r *Router) Reset(id WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.holder(id)
	if !ok {
		return
	}
	h.index.Clear(h.slot)
	if h.decode != nil {
		h.decode.held = 0
	}
}

// Observed compares what a worker really had of a request with what the router took it
// to hold. Blocks that it does not have are taken out of the index; true means that there were some. A worker
// that just evicted them says so itself, and nothing is counted.
func (r *Router) Observed(c *Choice, req Request, cachedTokens int) bool {
	if cachedTokens >= c.HeldTokens {
		return false
	}
	q := r.query(req)
	defer r.release(q)
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byID[c.Worker]
	if w == nil || !w.Events || int(w.group.at) >= len(q.groups) || !q.groups[w.group.at].wanted {
		return false
	}
	g := &q.groups[w.group.at]
	g.matches = &q.matches[w.group.at]
	r.held.Lookup(g.chain[:g.usable], g.matches)
	had, has := cachedTokens/g.size, g.device(w.slot)
	if has <= had || has > c.Terms.DeviceBlocks { // it said meanwhile that they went, or has got more since
		return false
	}
	r.held.Remove(w.slot, prefix.Device, g.chain[had:has])
	w.held -= has - had
	r.counts.Corrections++
	r.counts.CorrectedBlocks += uint64(has - had)
	return true
}
