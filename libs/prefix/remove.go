package prefix

import (
	"math/bits"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// Remove takes one reference of each block from what the slot has in the tier, in any order. What it does not
// have is counted and ignored.
func (x *Index) Remove(s Slot, t Tier, hashes []block.Hash) {
	x.do(change{removes: true, slot: s, tier: t, blocks: hashes})
}

// removeAll removes blocks step by step.
func (x *Index) removeAll(l lane, hashes []block.Hash) {
	for len(hashes) > 0 {
		n := min(len(hashes), stepBlocks)
		x.mu.Lock()
		x.remove(l, hashes[:n])
		x.mu.Unlock()
		hashes = hashes[n:]
	}
}

// remove collects the blocks of one run after another. Evicted chains come from their end or from their beginning,
// so the next block is most likely beside the last.
func (x *Index) remove(l lane, hashes []block.Hash) {
	var (
		id   runID
		r    *run
		i    int
		mask uint64
	)
	for _, h := range hashes {
		switch {
		case r != nil && i > 0 && r.hashes[i-1] == h:
			i--
		case r != nil && i+1 < int(r.n) && r.hashes[i+1] == h:
			i++
		default:
			at, ok := x.table.find(h)
			if !ok {
				x.counts.IgnoredRemoves++
				continue
			}
			if at.run() != id && mask != 0 {
				x.release(id, r, l, mask)
				mask = 0
			}
			id, i = at.run(), at.index()
			r = x.pages.at(id)
		}
		if mask>>i&1 != 0 { // twice in one call
			x.release(id, r, l, mask)
			mask = 0
			if i >= int(r.n) || r.hashes[i] != h {
				x.counts.IgnoredRemoves++
				id, r = 0, nil
				continue
			}
		}
		mask |= 1 << i
	}
	if mask != 0 {
		x.release(id, r, l, mask)
	}
}

// trim gives back what nobody holds: the end of a run, or all of it. Blocks in the middle keep their place until then.
func (x *Index) trim(id runID, r *run) {
	if r.full > 0 {
		return
	}
	var live uint64
	for _, h := range x.holders(r) {
		live |= h.bits
	}
	n := bits.Len64(live)
	if n == int(r.n) {
		return
	}
	x.warmed += x.table.warm(r.hashes[n:r.n])
	for i := n; i < int(r.n); i++ {
		x.table.remove(r.hashes[i], placeOf(id, i))
	}
	x.table.settle(int(r.n) - n)
	r.n = uint8(n)
	if n > 0 {
		x.recount(r)
		return
	}
	if r.dense != 0 {
		x.endDense(r)
	}
	x.ages.remove(x, r)
	r.next, r.prev = 0, 0
	x.pages.give(id)
}
