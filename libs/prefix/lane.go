package prefix

import (
	"math/bits"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// laneState is what a slot holds in a tier.
type laneState struct {
	runs []runID // of which it has blocks, in no order
	// more has the references beyond the first of blocks stored more than once: few, or none and nil.
	more map[block.Hash]uint32
}

// repeat counts one more reference of blocks that the lane has.
func (x *Index) repeat(r *run, l lane, mask uint64) {
	own := x.laneState(l)
	if own.more == nil {
		own.more = map[block.Hash]uint32{}
	}
	x.counts.Duplicates += uint64(bits.OnesCount64(mask))
	x.repeated -= len(own.more)
	for ; mask != 0; mask &= mask - 1 {
		own.more[r.hashes[bits.TrailingZeros64(mask)]]++
	}
	x.repeated += len(own.more)
}

// unrepeat takes one reference of blocks that the lane has more than once and returns the others.
func (x *Index) unrepeat(r *run, l lane, mask uint64) (once uint64) {
	own := x.laneState(l)
	if len(own.more) == 0 {
		return mask
	}
	x.repeated -= len(own.more)
	for rest := mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		switch h := r.hashes[i]; own.more[h] {
		case 0:
			continue
		case 1:
			delete(own.more, h)
		default:
			own.more[h]--
		}
		mask &^= 1 << i
	}
	x.repeated += len(own.more)
	return mask
}

// loseRepeats forgets the further references of blocks that are taken from the lane whatever their number.
func (x *Index) loseRepeats(r *run, l lane, mask uint64) {
	own := x.laneState(l)
	if len(own.more) == 0 {
		return
	}
	x.repeated -= len(own.more)
	for ; mask != 0; mask &= mask - 1 {
		delete(own.more, r.hashes[bits.TrailingZeros64(mask)])
	}
	x.repeated += len(own.more)
}
