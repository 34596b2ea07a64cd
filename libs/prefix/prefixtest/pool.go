package prefixtest

import (
	"math/rand/v2"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// pool is the cache of one worker: a list of blocks in the order of their last use, with the longest unused first.
// A chain is used from its end to its beginning, so that a block goes before those that it follows.
type pool struct {
	at    map[block.Hash]int32
	nodes []node // nodes[0] is the ring's head
	free  []int32
}

type node struct {
	hash       block.Hash
	next, prev int32
}

func newPool() *pool { return &pool{at: map[block.Hash]int32{}, nodes: make([]node, 1)} }

func (p *pool) unlink(i int32) {
	n := p.nodes[i]
	p.nodes[n.prev].next, p.nodes[n.next].prev = n.next, n.prev
}

func (p *pool) append(i int32) {
	last := p.nodes[0].prev
	p.nodes[i].prev, p.nodes[i].next = last, 0
	p.nodes[last].next, p.nodes[0].prev = i, i
}

// use makes the chain the last used and returns which of its blocks are new, as ranges.
func (p *pool) use(chain []block.Hash) (stored []Range) {
	for i, h := range chain {
		if _, ok := p.at[h]; ok {
			continue
		}
		if n := len(stored); n > 0 && stored[n-1].To == i {
			stored[n-1].To++
		} else {
			stored = append(stored, Range{i, i + 1})
		}
	}
	for i := len(chain) - 1; i >= 0; i-- {
		id, ok := p.at[chain[i]]
		switch {
		case ok:
			p.unlink(id)
		case len(p.free) > 0:
			id, p.free = p.free[len(p.free)-1], p.free[:len(p.free)-1]
		default:
			id = int32(len(p.nodes))
			p.nodes = append(p.nodes, node{})
		}
		p.nodes[id].hash = chain[i]
		p.at[chain[i]] = id
		p.append(id)
	}
	return stored
}

// evict removes blocks until at most so many are left, and now and then one anywhere instead.
func (p *pool) evict(blocks int, holes float64, random *rand.Rand) (removed []block.Hash) {
	for len(p.at) > blocks {
		id := p.nodes[0].next
		for holes > 0 && random.Float64() < holes {
			if id = 1 + random.Int32N(int32(len(p.nodes)-1)); p.at[p.nodes[id].hash] == id {
				break
			}
			id = p.nodes[0].next
		}
		h := p.nodes[id].hash
		p.unlink(id)
		p.free = append(p.free, id)
		delete(p.at, h)
		removed = append(removed, h)
	}
	return removed
}

// lead is how many leading blocks of the chain the worker has.
func (p *pool) lead(chain []block.Hash) int {
	for i, h := range chain {
		if _, ok := p.at[h]; !ok {
			return i
		}
	}
	return len(chain)
}
