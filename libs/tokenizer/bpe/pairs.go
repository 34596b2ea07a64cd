package bpe

import (
	"math/bits"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// pairs is an open-addressed table of merges. A slot has the two tokens in 20 bits each and
// the merge's rank in 24: eight bytes, since most of what a merge costs is the wait for a
// slot. A filter, small enough for a core's own cache, spares the wait for most pairs that do
// not merge.
type pairs struct {
	slots       []uint64
	shift       uint
	filter      []uint64 // a Bloom filter with one function
	filterShift uint
	merged      []uint32 // by rank
	// small has the ranks of pairs of tokens below smallTokens, which bytes and letters are.
	small []uint32
}

const (
	smallTokens = 512

	noRank    = 1<<24 - 1
	emptySlot = ^uint64(0) // MaxTokens is no token
	rankBits  = 24
	tokenBits = 20
)

// build fills the table. Of a pair that is listed twice the last counts, as in the reference.
func (p *pairs) build(merges []spec.Merge, hidden func(id uint32) bool) {
	size := bits.Len(uint(len(merges)*8/5 + 1))
	p.shift = uint(64 - size)
	p.slots = make([]uint64, 1<<size)
	for i := range p.slots {
		p.slots[i] = emptySlot
	}
	filterBits := max(size+2, 6)
	p.filter, p.filterShift = make([]uint64, 1<<filterBits/64), uint(64-filterBits)
	p.merged = make([]uint32, len(merges))
	p.small = make([]uint32, smallTokens*smallTokens)
	for i := range p.small {
		p.small[i] = noRank
	}
	for rank, m := range merges {
		p.merged[rank] = m.Result
		if hidden(m.Result) {
			continue
		}
		key := uint64(m.Left)<<tokenBits | uint64(m.Right)
		h := key * hashFactor
		p.filter[h>>p.filterShift>>6] |= 1 << (h >> p.filterShift & 63)
		i := int(h >> p.shift)
		for p.slots[i] != emptySlot && p.slots[i]>>rankBits != key {
			i = (i + 1) & (len(p.slots) - 1)
		}
		p.slots[i] = key<<rankBits | uint64(rank)
		if m.Left < smallTokens && m.Right < smallTokens {
			p.small[m.Left*smallTokens+m.Right] = uint32(rank)
		}
	}
}

const hashFactor = 0x9e3779b97f4a7c15

// first is rank for symbols, most of which are bytes.
func (p *pairs) first(left, right uint32) uint32 {
	if left|right < smallTokens {
		return p.small[left*smallTokens+right]
	}
	return p.rank(left, right)
}

// rank is the priority of a pair, the lower the sooner; noRank does not merge.
func (p *pairs) rank(left, right uint32) uint32 {
	key := uint64(left)<<tokenBits | uint64(right)
	h := key * hashFactor
	if f := h >> p.filterShift; p.filter[f>>6]>>(f&63)&1 == 0 {
		return noRank
	}
	return p.find(key, h)
}

func (p *pairs) find(key, h uint64) uint32 {
	mask := len(p.slots) - 1
	for i := int(h >> p.shift); ; i = (i + 1) & mask {
		s := p.slots[i&mask]
		if s>>rankBits == key || s == emptySlot {
			return uint32(s) & noRank
		}
	}
}
