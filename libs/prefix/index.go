package prefix

import (
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// Slot is a holder of blocks: a (worker, dp_rank) in one life. Slots count from 0 without gaps and are given
// out again after Drop.
type Slot int32

// Tier is where a holder keeps a block, the fastest first.
type Tier uint8

const (
	Device Tier = iota
	Host
	Disk
	// Tiers is how many there are.
	Tiers = 3
)

// IndexConfig sizes an Index.
type IndexConfig struct {
	// Bytes is the memory that entries may take; 0 means 4 GiB.
	Bytes int
}

// Stats are counts since the index was made, but for Slots, Entries, Blocks and Bytes, which are of now.
type Stats struct {
	Slots   int // that are given out
	Entries int // (block, slot, tier) that are held
	Blocks  int // different blocks that somebody holds
	Bytes   int // taken for them
	// Evictions counts the entries that went for the byte budget: what lookups may miss.
	Evictions uint64
	// Duplicates counts stored blocks that the slot had in that tier already: one more reference each.
	Duplicates uint64
	// IgnoredRemoves counts removed blocks that the slot did not have in that tier.
	IgnoredRemoves uint64
}

// Index tells how many leading blocks of a chain each slot holds. Any goroutine may call any method.
type Index struct {
	mu     sync.RWMutex
	slots  []holding // by Slot
	free   []Slot
	counts Stats
}

type holding struct {
	live  bool
	tiers [Tiers]map[block.Hash]uint32 // references of each block
}

// NewIndex returns an index without slots.
func NewIndex(IndexConfig) *Index { return &Index{} }

// Add gives out a slot that holds nothing.
func (x *Index) Add() Slot {
	x.mu.Lock()
	defer x.mu.Unlock()
	var s Slot
	if n := len(x.free); n > 0 {
		s, x.free = x.free[n-1], x.free[:n-1]
	} else {
		s = Slot(len(x.slots))
		x.slots = append(x.slots, holding{})
	}
	x.slots[s].live = true
	x.counts.Slots++
	return s
}

// Drop takes a slot back: its holder has left and all its entries with it. Dropping one that is not given out
// does nothing.
func (x *Index) Drop(s Slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.known(s) {
		return
	}
	x.clear(s)
	x.slots[s].live = false
	x.free = append(x.free, s)
	x.counts.Slots--
}

// Clear forgets all that the slot holds, in every tier.
func (x *Index) Clear(s Slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known(s) {
		x.clear(s)
	}
}

func (x *Index) known(s Slot) bool { return s >= 0 && int(s) < len(x.slots) && x.slots[s].live }

func (x *Index) clear(s Slot) {
	for _, held := range x.slots[s].tiers {
		x.counts.Entries -= len(held)
	}
	x.slots[s].tiers = [Tiers]map[block.Hash]uint32{}
}

// Store says that the slot now has the blocks of the chain in the tier, one reference more each. They follow
// one another, the first follows parent, which may be a root, unknown or wrong: it helps to place them, and no
// answer depends on it.
func (x *Index) Store(s Slot, t Tier, parent block.Hash, chain []block.Hash) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.known(s) {
		return
	}
	held := &x.slots[s].tiers[t]
	if *held == nil {
		*held = map[block.Hash]uint32{}
	}
	for _, h := range chain {
		if (*held)[h]++; (*held)[h] > 1 {
			x.counts.Duplicates++
		} else {
			x.counts.Entries++
		}
	}
}

// Remove takes one reference of each block from what the slot has in the tier, in any order. What it does not
// have is counted and ignored.
func (x *Index) Remove(s Slot, t Tier, hashes []block.Hash) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.known(s) {
		return
	}
	held := x.slots[s].tiers[t]
	for _, h := range hashes {
		switch held[h] {
		case 0:
			x.counts.IgnoredRemoves++
		case 1:
			delete(held, h)
			x.counts.Entries--
		default:
			held[h]--
		}
	}
}

// Lookup answers for every slot how much of the chain's beginning it holds.
func (x *Index) Lookup(chain []block.Hash, m *Matches) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	m.reset(len(x.slots))
	for s := range x.slots {
		for _, h := range chain {
			t := x.slots[s].best(h)
			if t == Tiers {
				break
			}
			m.Depths[s]++
			if t != Device {
				m.credit(Slot(s), t, 1)
			}
		}
	}
}

// best is the fastest tier that has the block, or Tiers.
func (h *holding) best(b block.Hash) Tier {
	for t := range h.tiers {
		if h.tiers[t][b] > 0 {
			return Tier(t)
		}
	}
	return Tiers
}

// Stats counts what the index has and did.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.counts
}
