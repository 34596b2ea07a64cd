package prefix

import (
	"math/bits"
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// Slot is a holder of blocks: a (worker, dp_rank) in one life. Slots count from 0 without gaps and are given
// out again after Drop.
type Slot int32

// Tier is where a holder keeps a block, the closest first.
type Tier = block.Tier

const (
	Device = block.Device
	Host   = block.Host
	Disk   = block.Disk
	// Tiers is how many there are.
	Tiers = block.Tiers
)

// IndexConfig sizes an Index.
type IndexConfig struct {
	// Bytes is the memory that entries may take; 0 means 4 GiB.
	Bytes int
}

const defaultBytes = 4 << 30

// Index tells how many leading blocks of a chain each slot holds. Any goroutine may call any method: changes wait
// for one another, lookups at most for a small part of a change.
type Index struct {
	changes turn               // held by a change from its beginning to its end
	handed  [handedMost]handed // changes for whoever holds the turn
	// mu guards what follows. A long change gives it away now and then, whenever all is consistent.
	mu     lock
	moment atomic.Uint64 // of the last lookup or change
	_      [64]byte      // every lookup writes it

	slots  []slotState // by Slot
	unused []Slot
	// leaving is the slot whose entries are being taken out, so that lookups pass over the rest; noSlot if none is.
	leaving Slot

	pages     *pages
	table     table
	lists     lists
	dense     []slotSet // the first stands for none
	freeDense []uint32
	ages      ages
	budget    int
	// slack is by how much the moment of use of a run may be wrong, little beside the age of what is evicted next:
	// a lookup that writes to a run takes it from the caches of the others.
	slack    uint64
	warmed   uint64 // what table.warm returns goes somewhere
	repeated int    // blocks with more than one reference in a lane
	counts   Stats
}

const noSlot Slot = -1

// slotState is what is known of a slot, by tier.
type slotState struct {
	live  bool
	lanes [Tiers]laneState
}

// NewIndex returns an index without slots.
func NewIndex(config IndexConfig) *Index {
	if config.Bytes == 0 {
		config.Bytes = defaultBytes
	}
	pages := newPages()
	return &Index{
		leaving: noSlot, pages: &pages, table: newTable(&pages), dense: make([]slotSet, 1), budget: config.Bytes,
	}
}

// Add gives out a slot that holds nothing.
func (x *Index) Add() Slot {
	x.changes.Lock()
	defer x.changes.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	var s Slot
	if n := len(x.unused); n > 0 {
		s, x.unused = x.unused[n-1], x.unused[:n-1]
	} else {
		s = Slot(len(x.slots))
		x.slots = append(x.slots, slotState{})
	}
	x.slots[s].live = true
	x.pages.admit(s)
	x.counts.Slots++
	return s
}

// Drop takes a slot back: its holder has left and all its entries vanish at once. Dropping one that is not given out
// does nothing.
func (x *Index) Drop(s Slot) {
	x.changes.Lock()
	defer x.changes.Unlock()
	if !x.known(s) {
		return
	}
	x.takeAll(s)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slots[s] = slotState{}
	x.unused = append(x.unused, s)
	x.pages.leave(s)
	x.counts.Slots--
}

// Clear forgets at once all that the slot holds, in every tier.
func (x *Index) Clear(s Slot) {
	x.changes.Lock()
	defer x.changes.Unlock()
	if x.known(s) {
		x.takeAll(s)
	}
}

// known says whether a slot is given out; its caller makes a change.
func (x *Index) known(s Slot) bool { return s >= 0 && int(s) < len(x.slots) && x.slots[s].live }

// step is how many runs a change deals with before it lets lookups pass: about 10 µs. What a leaving worker had is
// taken out in smaller steps: with four times as many it is gone a fifth sooner, and one lookup in a thousand waits twice
// as long meanwhile.
const (
	stepRuns   = 8
	stepBlocks = stepRuns * runBlocks
	leaveRuns  = 2
)

// takeAll takes the entries of a slot out, step by step; lookups see none from the first step on.
func (x *Index) takeAll(s Slot) {
	for more := true; more; {
		x.mu.Lock()
		x.leaving = s
		if more = x.takeSome(s); !more {
			x.leaving = noSlot
		}
		x.mu.Unlock()
	}
}

// takeSome takes some of the slot's runs and says whether any are left.
func (x *Index) takeSome(s Slot) bool {
	left := leaveRuns
	for t := range Tier(Tiers) {
		own := &x.slots[s].lanes[t]
		for ; len(own.runs) > 0; left-- {
			if left == 0 {
				return true
			}
			id := own.runs[len(own.runs)-1]
			r := x.pages.at(id)
			x.forget(r, laneOf(s, t))
			x.trim(id, r)
		}
		x.repeated -= len(own.more)
		*own = laneState{}
	}
	return false
}

// forget takes all blocks of the run from the lane.
func (x *Index) forget(r *run, l lane) (entries int) {
	i, _ := x.holderOf(x.holders(r), l)
	entries = bits.OnesCount64(x.holders(r)[i].bits)
	x.counts.Entries -= entries
	x.uninsert(r, i)
	return entries
}

func (x *Index) laneState(l lane) *laneState { return &x.slots[l.slot()].lanes[l.tier()] }
