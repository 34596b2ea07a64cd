package router

import "github.com/switchyard-llm/switchyard/libs/block"

// entryBytes is what a remembered block costs: a node, and its share of a map that is
// three quarters full on average.
const entryBytes = 48

const none = int32(-1)

// memory is the set of blocks that a worker is taken to hold, least recently sent first out.
//
// A chain is touched from its end to its start, so a block is always more recent than
// those after it: the chain loses its end first and never has a hole, which is what
// allows match to bisect.
type memory struct {
	capacity int
	index    map[block.Hash]int32
	nodes    []node
	free     int32 // list of unused nodes by next
	first    int32 // most recent
	last     int32
}

type node struct {
	hash       block.Hash
	prev, next int32
}

func (m *memory) len() int { return len(m.index) }

// resize sets the capacity, in blocks, and forgets what does not fit.
func (m *memory) resize(capacity int) {
	if m.index == nil {
		m.clear()
	}
	m.capacity = capacity
	if len(m.index) <= capacity {
		return
	}
	keep := make([]block.Hash, 0, capacity)
	for n := m.first; len(keep) < capacity; n = m.nodes[n].next {
		keep = append(keep, m.nodes[n].hash)
	}
	m.clear() // gives the memory back
	m.touch(keep)
}

func (m *memory) clear() {
	m.index, m.nodes = map[block.Hash]int32{}, nil
	m.free, m.first, m.last = none, none, none
}

// match returns how many leading blocks of the chain are remembered.
func (m *memory) match(chain []block.Hash) int {
	held, missing := 0, len(chain)+1 // the answer is in [held, missing)
	for probe := 1; held+1 < missing; {
		if _, ok := m.index[chain[probe-1]]; ok {
			held = probe
		} else {
			missing = probe
		}
		probe = (held + missing) / 2
		if held == 1 && missing == len(chain)+1 {
			probe = len(chain) // the two usual answers, none and all, are asked first
		}
	}
	return held
}

// touch remembers the chain as the most recent; of one that is too long, the start.
func (m *memory) touch(chain []block.Hash) {
	chain = chain[:min(len(chain), m.capacity)]
	for i := len(chain) - 1; i >= 0; i-- {
		n, ok := m.index[chain[i]]
		if ok {
			m.unlink(n)
		} else {
			n = m.take(chain[i])
		}
		m.pushFront(n)
	}
}

func (m *memory) take(hash block.Hash) int32 {
	if len(m.index) >= m.capacity {
		n := m.last
		m.unlink(n)
		delete(m.index, m.nodes[n].hash)
		m.nodes[n].next, m.free = m.free, n
	}
	n := m.free
	if n == none {
		n = int32(len(m.nodes))
		m.nodes = append(m.nodes, node{})
	} else {
		m.free = m.nodes[n].next
	}
	m.nodes[n].hash = hash
	m.index[hash] = n
	return n
}

func (m *memory) unlink(n int32) {
	prev, next := m.nodes[n].prev, m.nodes[n].next
	if prev == none {
		m.first = next
	} else {
		m.nodes[prev].next = next
	}
	if next == none {
		m.last = prev
	} else {
		m.nodes[next].prev = prev
	}
}

func (m *memory) pushFront(n int32) {
	m.nodes[n].prev, m.nodes[n].next = none, m.first
	if m.first == none {
		m.last = n
	} else {
		m.nodes[m.first].prev = n
	}
	m.first = n
}
