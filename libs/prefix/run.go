package prefix

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// runBlocks is how many blocks a run has room for: one bit each in a word.
const runBlocks = 64

// run is up to 64 blocks that follow one another in chains, and who holds which of them. Every block that anybody
// holds is in exactly one run, at one place; the table finds it. Presence is a bit per block and holder, so holes,
// and pieces that come in any order, are nothing special.
//
// A chain is a walk over runs. Where chains part, the run is split, so that walks enter runs at their beginning and
// most holders of a run have all of it. That makes walks fast; no answer depends on it.
type run struct {
	used atomic.Uint64 // moment of the last lookup or store
	// next and prev are neighbours in some chain, most likely: whoever follows one compares the hash there.
	next, prev runID
	held       uint32 // holders
	full       uint32 // holders that have every block on the device
	lower      uint32 // holders in tiers below the device
	dense      uint32 // place of the bit set of full holders, 0: none
	age        int32  // place in ages
	list       uint32
	n          uint8 // blocks; 0 in a free run
	class      uint8
	// near has the holders while they are at most nearHolders, else list of this class does. Here the first shares
	// a cache line with what is above, the others fill the second, and the hashes begin a third.
	near   [nearHolders]holder
	hashes [runBlocks]block.Hash // of n blocks
}

const nearHolders = 5

// runID names a run; 0 is none. Only free runs have no blocks.
type runID uint32

// holder says which blocks of a run a lane has. The holders of a run are sorted by lane.
type holder struct {
	bits uint64
	lane lane
	back int32 // place of the run in the lane's list
}

// lane is a tier of a slot.
type lane uint32

const laneShift = 2 // Tiers are fewer than 1<<laneShift

func laneOf(s Slot, t Tier) lane { return lane(s)<<laneShift | lane(t) }
func (l lane) slot() Slot        { return Slot(l >> laneShift) }
func (l lane) tier() Tier        { return Tier(l & (1<<laneShift - 1)) }

// place is where a block is: the run, and its number in it.
type place uint32

const placeShift = 6 // runBlocks is 1<<placeShift

// maxRuns is how many runs places can tell apart, 4 billion blocks.
const maxRuns = 1 << (32 - placeShift)

func placeOf(id runID, i int) place { return place(id)<<placeShift | place(i) }
func (p place) run() runID          { return runID(p >> placeShift) }
func (p place) index() int          { return int(p & (runBlocks - 1)) }

// span is the bits of n blocks from the i-th on, n at least 1.
func span(i, n int) uint64 { return ^uint64(0) >> (runBlocks - n) << i }

// everything is the bits of all blocks of the run.
func (r *run) everything() uint64 { return span(0, int(r.n)) }

// common is the length of the longest common prefix.
func common(a, b []block.Hash) int {
	n := min(len(a), len(b))
	if n == 0 || a[0] != b[0] {
		return 0
	}
	// As strings they are compared with vector instructions.
	const size = int(unsafe.Sizeof(a[0]))
	if unsafe.String((*byte)(unsafe.Pointer(&a[0])), n*size) == unsafe.String((*byte)(unsafe.Pointer(&b[0])), n*size) {
		return n
	}
	a, b = a[:n], b[:n]
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// leading is how many of the bits are set before the first that is not.
func leading(word uint64) int { return bits.TrailingZeros64(^word) }
