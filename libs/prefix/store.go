package prefix

import (
	"github.com/switchyard-llm/switchyard/libs/block"
)

// Store says that the slot now has the blocks of the chain in the tier, one reference more each. They follow
// one another, the first follows parent, which may be a root, unknown or wrong: it helps to place them, and no
// answer depends on it. A slot that is not given out stores nothing.
func (x *Index) Store(s Slot, t Tier, parent block.Hash, chain []block.Hash) {
	x.do(change{slot: s, tier: t, parent: parent, blocks: chain})
}

// storeAll stores a chain step by step.
func (x *Index) storeAll(l lane, parent block.Hash, chain []block.Hash) {
	for len(chain) > 0 {
		n := min(len(chain), stepBlocks)
		x.table.prepare()
		x.mu.Lock()
		x.store(l, parent, chain[:n])
		x.evict()
		x.mu.Unlock()
		parent, chain = chain[n-1], chain[n:]
	}
}

func (x *Index) store(l lane, parent block.Hash, chain []block.Hash) {
	now := x.moment.Add(moment)
	at, _ := x.table.find(parent)
	for len(chain) > 0 {
		n := 0
		if p, ok := x.follow(at, chain[0]); ok {
			r := x.pages.at(p.run())
			n = common(r.hashes[p.index():r.n], chain)
			x.hold(p.run(), r, l, span(p.index(), n))
			x.link(at, p)
			at = p + place(n-1)
		} else {
			n, at = x.grow(l, at, chain, now)
		}
		x.pages.at(at.run()).used.Store(now)
		chain = chain[n:]
	}
}

// follow finds a block that most likely comes after the one at a place, 0 if that is not known.
func (x *Index) follow(at place, h block.Hash) (place, bool) {
	if at != 0 {
		r := x.pages.at(at.run())
		if i := at.index() + 1; i < int(r.n) {
			if r.hashes[i] == h {
				return at + 1, true
			}
		} else if next := x.pages.at(r.next); next.n > 0 && next.hashes[0] == h {
			return placeOf(r.next, 0), true
		}
	}
	return x.table.find(h)
}

// link notes that one block came after another, if they are the end and the beginning of runs.
func (x *Index) link(from, to place) {
	if from == 0 || to.index() != 0 || from.run() == to.run() {
		return
	}
	r := x.pages.at(from.run())
	if from.index() == int(r.n)-1 {
		r.next = to.run()
		x.pages.at(to.run()).prev = from.run()
	}
}

// grow finds room for the blocks of the chain up to the next that has a place, behind the one at a place or in a new
// run. The first has none. It returns how many it placed and where the last is.
func (x *Index) grow(l lane, at place, chain []block.Hash, now uint64) (int, place) {
	id, r := x.room(l, at)
	from := int(r.n)
	chain = chain[:min(len(chain), runBlocks-from)]
	x.warmed += x.table.warm(chain)
	n := 0
	for ; n < len(chain); n++ {
		r.hashes[from+n] = chain[n]
		if !x.table.add(chain[n], placeOf(id, from+n)) {
			break
		}
	}
	x.table.settle(n)
	if from == 0 {
		r.n = uint8(n)
		x.insert(id, r, 0, holder{lane: l, bits: span(0, n)})
		x.link(at, placeOf(id, 0))
		r.used.Store(now)
		x.ages.push(x, id, r)
		x.counts.Entries += n
	} else {
		r.n += uint8(n)
		x.recount(r)
		x.hold(id, r, l, span(from, n))
	}
	return n, placeOf(id, from+n-1)
}

// room is a run at whose end blocks of the lane can be placed that follow the one at a place: its own run, if that
// ends there and few hold it, as those are full no longer, else a new one. Where the chain parts from a run, that is
// split.
func (x *Index) room(l lane, at place) (runID, *run) {
	if at != 0 {
		r := x.pages.at(at.run())
		if i := at.index() + 1; i < int(r.n) {
			x.split(at.run(), r, i)
		} else if i < runBlocks && r.held < denseFrom && x.pages.at(r.next).n == 0 {
			return at.run(), r
		}
	}
	return x.pages.take(l.slot())
}

// split moves the blocks of a run from the i-th on into a run of their own.
func (x *Index) split(id runID, r *run, i int) {
	tailID, tail := x.pages.take(r.first(x).slot())
	tail.n = uint8(copy(tail.hashes[:], r.hashes[i:r.n]))
	for k, h := range tail.hashes[:tail.n] {
		x.table.move(h, placeOf(id, i+k), placeOf(tailID, k))
	}
	x.divide(id, r, tailID, tail, i)
	tail.used.Store(r.used.Load())
	tail.next, tail.prev, r.next = r.next, id, tailID
	if next := x.pages.at(tail.next); next.n > 0 && next.prev == id {
		next.prev = tailID
	}
	x.ages.push(x, tailID, tail)
	x.trim(id, r)
}

func (r *run) first(x *Index) lane { return x.holders(r)[0].lane }

// divide gives the holders of a run those bits that move with its blocks from the i-th on.
func (x *Index) divide(id runID, r *run, tailID runID, tail *run, i int) {
	r.n = uint8(i)
	kept := r.everything()
	for k := int(r.held) - 1; k >= 0; k-- {
		h := &x.holders(r)[k]
		if moved := h.bits >> i; moved != 0 {
			x.insert(tailID, tail, 0, holder{lane: h.lane, bits: moved})
		}
		h.bits &= kept
	}
	x.recount(r)
	for k := int(r.held) - 1; k >= 0; k-- {
		if x.holders(r)[k].bits == 0 {
			x.uninsert(r, k)
		}
	}
}
