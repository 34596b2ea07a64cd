package router

import (
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// entryBytes is what an assumed block costs beside the index: a node, and its share of a
// map that is three quarters full on average.
const entryBytes = 64

const none = int32(-1)

// assumed is the set of blocks that a worker which publishes no events is taken to hold, least
// recently sent first out, and none longer than for a while. What it says goes into the index.
//
// A chain is touched from its end to its start, so a block is always more recent than
// those after it: the chain loses its end first and never has a hole.
type assumed struct {
	holder   *prefix.Index
	slot     prefix.Slot
	capacity int
	index    map[block.Hash]int32
	nodes    []node
	free     int32 // list of unused nodes by next
	first    int32 // most recent
	last     int32
	gone     []block.Hash // scratch
}

type node struct {
	hash       block.Hash
	until      time.Time
	prev, next int32
}

func (m *assumed) bind(holder *prefix.Index, slot prefix.Slot) { m.holder, m.slot = holder, slot }

// size sets the capacity: so many blocks, but no more than the worker's pool has.
func (m *assumed) size(w Worker, entries int) {
	if w.PoolBlocks > 0 {
		entries = min(entries, w.PoolBlocks)
	}
	if m.index == nil {
		m.index, m.free, m.first, m.last = map[block.Hash]int32{}, none, none, none
	}
	m.capacity = entries
	for len(m.index) > entries {
		m.forgetLast()
	}
	m.flush()
	if len(m.index) == 0 {
		m.index, m.nodes, m.free = map[block.Hash]int32{}, nil, none // gives the memory back
	}
}

// touch takes the worker to hold the chain until then; of one that is too long, the start.
func (m *assumed) touch(until time.Time, chain []block.Hash) {
	chain = chain[:min(len(chain), m.capacity)]
	had := 0
	for had < len(chain) {
		if _, ok := m.index[chain[had]]; !ok {
			break
		}
		had++
	}
	m.freshen(until, chain[:had]) // first, so that they are not what makes room for the others
	for i := len(chain) - 1; i >= had; i-- {
		n := m.take(chain[i])
		m.nodes[n].until = until
		m.pushFront(n)
	}
	m.freshen(until, chain[:had])
	m.flush()
	if had < len(chain) {
		var parent block.Hash
		if had > 0 {
			parent = chain[had-1]
		}
		m.holder.Store(m.slot, prefix.Device, parent, chain[had:])
	}
}

// freshen makes blocks that are there the most recent ones.
func (m *assumed) freshen(until time.Time, chain []block.Hash) {
	for i := len(chain) - 1; i >= 0; i-- {
		n := m.index[chain[i]]
		m.unlink(n)
		m.nodes[n].until = until
		m.pushFront(n)
	}
}

// expire forgets what was sent too long ago.
func (m *assumed) expire(now time.Time) {
	for m.last != none && len(m.index) > 0 && m.nodes[m.last].until.Before(now) {
		m.forgetLast()
	}
	m.flush()
}

// flush takes what was forgotten out of the index.
func (m *assumed) flush() {
	if len(m.gone) > 0 {
		m.holder.Remove(m.slot, prefix.Device, m.gone)
		m.gone = m.gone[:0]
	}
}

func (m *assumed) forgetLast() {
	n := m.last
	m.unlink(n)
	m.gone = append(m.gone, m.nodes[n].hash)
	delete(m.index, m.nodes[n].hash)
	m.nodes[n].next, m.free = m.free, n
}

func (m *assumed) take(hash block.Hash) int32 {
	if len(m.index) >= m.capacity {
		m.forgetLast()
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

func (m *assumed) unlink(n int32) {
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

func (m *assumed) pushFront(n int32) {
	m.nodes[n].prev, m.nodes[n].next = none, m.first
	if m.first == none {
		m.last = n
	} else {
		m.nodes[m.first].prev = n
	}
	m.first = n
}

// Remember notes that a worker holds the blocks of these tokens: the answer of a request
// is the prefix of the next turn. One that publishes what it holds says so itself.
func (r *Router) Remember(id WorkerID, salt string, tokens []sequence.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.byID[id]; w != nil && !w.Events {
		r.assumeTokens(&w.assumed, &w.Worker, salt, tokens)
	}
}

func (r *Router) assumeTokens(a *assumed, w *Worker, salt string, tokens []sequence.Token) {
	r.chain = prefix.Chain(r.chain[:0], prefix.Root(w.Model, "", salt), tokens, w.BlockTokens)
	r.assumeChain(a, r.chain)
}

func (r *Router) assumeChain(a *assumed, chain []block.Hash) {
	a.touch(r.opt.Now().Add(r.cfg.AssumeFor), chain)
}

// expireEvery is how long assumed prefixes may outlive their end.
const expireEvery = time.Second

// expire lets assumed prefixes end; it looks at the oldest of each worker only.
func (r *Router) expire() {
	if len(r.assuming) == 0 {
		return
	}
	now := r.opt.Now()
	if now.Sub(r.expired) < expireEvery {
		return
	}
	r.expired = now
	for a := range r.assuming {
		a.expire(now)
	}
}
