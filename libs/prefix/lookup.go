package prefix

import (
	"math/bits"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// Lookup answers for every slot how much of the chain's beginning it holds. It does not allocate once m has grown.
func (x *Index) Lookup(chain []block.Hash, m *Matches) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	m.reset(len(x.slots))
	if len(chain) == 0 {
		return
	}
	x.walk(chain, m)
	if x.leaving != noSlot {
		m.forget(x.leaving)
	}
}

// walk follows the chain run by run. A slot goes on as long as its depth is where the walk is. In dense runs at the
// beginning those that go on are in m.on, and get their depth when they drop out.
func (x *Index) walk(chain []block.Hash, m *Matches) {
	now := x.moment.Add(moment)
	depth, trunk := 0, false
	at, ok := x.table.find(chain[0])
	for ok {
		r := x.pages.at(at.run())
		i := at.index()
		n := common(r.hashes[i:r.n], chain[depth:])
		if now > r.used.Load()+x.slack {
			r.used.Store(now)
		}
		var more bool
		if r.dense != 0 && i == 0 && (trunk || depth == 0) {
			more, trunk = x.narrow(r, depth, n, m), true
		} else {
			if trunk {
				m.settle(depth)
				trunk = false
			}
			more = x.spread(r, i, depth, n, m)
		}
		depth += n
		if !more || depth == len(chain) {
			break
		}
		at, ok = x.follow(at+place(n-1), chain[depth])
	}
	if trunk {
		m.settle(depth)
	}
}

// spread moves the slots that are at depth forward by what they hold of the n blocks of the run from the i-th on, and
// says whether any holds them all.
func (x *Index) spread(r *run, i, depth, n int, m *Matches) (more bool) {
	hs := x.holders(r)
	if r.lower > 0 {
		return x.spreadTiers(hs, i, depth, n, m)
	}
	for k := range hs {
		d := &m.Depths[hs[k].lane.slot()]
		if int(*d) != depth {
			continue
		}
		lead := min(leading(hs[k].bits>>i), n)
		*d += uint32(lead)
		more = more || lead == n
	}
	return more
}

func (x *Index) spreadTiers(hs []holder, i, depth, n int, m *Matches) (more bool) {
	for len(hs) > 0 {
		s := hs[0].lane.slot()
		tiers := tiersOf(hs)
		if int(m.Depths[s]) == depth {
			lead := m.advance(s, hs[:tiers], i, n)
			more = more || lead == n
		}
		hs = hs[tiers:]
	}
	return more
}

// tiersOf is how many of the first holders are of one slot.
func tiersOf(hs []holder) int {
	n := 1
	for n < len(hs) && hs[n].lane.slot() == hs[0].lane.slot() {
		n++
	}
	return n
}

// searchCost is how many holders can be looked at in the time that it takes to find one among them.
const searchCost = 16

// narrow takes those that do not hold the first n blocks of a dense run out of m.on, and says whether any are left.
func (x *Index) narrow(r *run, depth, n int, m *Matches) bool {
	dropped := m.narrow(x.dense[r.dense], depth)
	switch {
	case dropped == 0 || r.full == r.held:
	case dropped <= fewSlots && dropped*searchCost <= int(r.held):
		hs := x.holders(r)
		for _, s := range m.out {
			if i, _ := x.holderOf(hs, laneOf(s, Device)); i < len(hs) && hs[i].lane.slot() == s {
				m.rejoin(s, hs[i:i+tiersOf(hs[i:])], n)
			}
		}
	default:
		x.lead(r, depth, n, m)
	}
	for _, word := range m.on {
		if word != 0 {
			return true
		}
	}
	return false
}

// lead moves the slots that have just dropped out forward by what they hold of the run, and takes those back in that
// have the first n blocks.
func (x *Index) lead(r *run, depth, n int, m *Matches) {
	if r.lower == 0 {
		x.leadDevice(r, depth, n, m)
		return
	}
	for hs := x.holders(r); len(hs) > 0; {
		s := hs[0].lane.slot()
		tiers := tiersOf(hs)
		if m.on[s>>6]>>(s&63)&1 == 0 && int(m.Depths[s]) == depth {
			m.rejoin(s, hs[:tiers], n)
		}
		hs = hs[tiers:]
	}
}

func (x *Index) leadDevice(r *run, depth, n int, m *Matches) {
	for _, h := range x.holders(r) {
		s := h.lane.slot()
		if int(m.Depths[s]) != depth || m.on[s>>6]>>(s&63)&1 != 0 {
			continue
		}
		lead := min(leading(h.bits), n)
		m.Depths[s] += uint32(lead)
		if lead == n {
			m.on[s>>6] |= 1 << (s & 63)
		}
	}
}

// rejoin moves a slot that has dropped out of the trunk forward and takes it back in if it has all n blocks.
func (m *Matches) rejoin(s Slot, hs []holder, n int) {
	if m.advance(s, hs, 0, n) == n {
		m.on[s>>6] |= 1 << (s & 63)
	}
}

// advance moves a slot forward by what its holders have of n blocks from the i-th on, each credited to its best tier.
func (m *Matches) advance(s Slot, hs []holder, i, n int) int {
	var word uint64
	for _, h := range hs {
		word |= h.bits >> i
	}
	lead := min(leading(word), n)
	m.Depths[s] += uint32(lead)
	if lead == 0 {
		return 0
	}
	left := span(0, lead)
	for _, h := range hs {
		word := h.bits >> i & left
		left &^= word
		if t := h.lane.tier(); t != Device {
			m.credit(s, t, uint32(bits.OnesCount64(word)))
		}
	}
	return lead
}
