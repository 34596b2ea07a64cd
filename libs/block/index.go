package block

import (
	"slices"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// space is the set of sequences that may share blocks: one model, LoRA and salt. It
// lives as long as a table or an indexed first block refers to it.
type space struct {
	id   uint64 // numbered among the nodes: the parent of first blocks
	name string
	root Hash // of the chain
	uses int
}

func (p *Pool) enter(name string, root Hash) *space {
	s := p.spaces[name]
	if s == nil {
		p.nodes++
		s = &space{id: p.nodes, name: name, root: root}
		p.spaces[name] = s
		p.spaceByID[s.id] = s
	}
	s.uses++
	return s
}

func (p *Pool) leave(s *space) {
	s.uses--
	if s.uses == 0 {
		delete(p.spaces, s.name)
		delete(p.spaceByID, s.id)
	}
}

// tip is where a sequence's chain of full blocks ends.
type tip struct {
	hash Hash
	node uint64 // 0: the chain left the index, nothing after it can be shared
}

// match finds the longest run of sealed blocks that hold the prompt's first tokens,
// one token short of all at the most. The blocks are in p.matched.
func (p *Pool) match(pr Prompt) tip {
	p.matched = p.matched[:0]
	at := tip{hash: pr.Root}
	s := p.spaces[pr.Namespace]
	if s == nil {
		return at
	}
	at.node = s.id
	size := p.config.BlockTokens
	for i := range (len(pr.Tokens) - 1) / size {
		tokens := pr.Tokens[i*size : (i+1)*size]
		hash := p.config.Chain(at.hash, tokens)
		b, ok := p.index[hash]
		if !ok {
			break
		}
		if !p.same(b, at.node, tokens) {
			p.stats.Collisions++
			break
		}
		p.matched = append(p.matched, b)
		at = tip{hash, p.blocks[b].node}
	}
	return at
}

// same compares what a hash only suggests. A node's number is never used again, so a
// parent that was evicted and computed anew does not revive its former children.
func (p *Pool) same(b ID, parent uint64, tokens []sequence.Token) bool {
	return p.blocks[b].parent == parent && slices.Equal(p.tokensOf(b), tokens)
}

// seal makes a full block immutable and, if its content is new, findable. A block
// whose content is indexed already joins that one's ring, to take its place should
// it be evicted first. It returns the new end of the chain.
func (p *Pool) seal(b ID, at tip, first bool) tip {
	p.move(b, Sealed)
	r := &p.blocks[b]
	hash := p.config.Chain(at.hash, p.tokensOf(b))
	r.node, r.hash = 0, hash
	if at.node == 0 {
		return tip{hash: hash}
	}
	other, ok := p.index[hash]
	switch {
	case !ok:
		p.nodes++
		r.node, r.parent, r.first, r.indexed = p.nodes, at.node, first, true
		p.index[hash] = b
		if first {
			p.spaceByID[at.node].uses++
		}
		p.stored(b, at.hash)
	case p.same(other, at.node, p.tokensOf(b)):
		p.stats.DuplicateBlocks++
		o := &p.blocks[other]
		r.node, r.parent, r.first = o.node, o.parent, o.first
		r.left, r.right = other, o.right
		p.blocks[o.right].left = b
		o.right = b
	default:
		p.stats.Collisions++
	}
	return tip{hash, r.node}
}

// rest is called when the last table and the last reader let go of a sealed block.
func (p *Pool) rest(b ID) {
	r := &p.blocks[b]
	if r.indexed {
		p.enlist(b)
		return
	}
	if r.node != 0 {
		// Its sequence used the content; say so to the block that stays, which keeps
		// parents younger than their children.
		if other := p.index[r.hash]; p.blocks[other].evictable {
			p.unlist(other)
			p.enlist(other)
		}
		p.forget(b)
	}
	p.release(b)
}

// forget takes a block out of the index. Another block of the same content, if
// there is one, takes its place.
func (p *Pool) forget(b ID) {
	r := &p.blocks[b]
	heir := r.right
	p.blocks[r.left].right = r.right
	p.blocks[r.right].left = r.left
	switch {
	case r.indexed && heir != b:
		p.index[r.hash] = heir
		p.blocks[heir].indexed = true
	case r.indexed:
		delete(p.index, r.hash)
		p.changes.add(Change{Kind: Removed, Hash: r.hash})
		if r.first {
			p.leave(p.spaceByID[r.parent])
		}
	}
	r.left, r.right = b, b
	r.node, r.parent, r.indexed, r.first = 0, 0, false, false
}

// evict frees the block that was used longest ago.
func (p *Pool) evict() {
	b := p.oldest
	if b == none {
		panic("block pool: a booked block does not exist") // the bookings are wrong
	}
	p.unlist(b)
	p.forget(b)
	p.release(b)
	p.stats.Evictions++
}

// enlist makes b the youngest of the evictable blocks.
func (p *Pool) enlist(b ID) {
	r := &p.blocks[b]
	r.prev, r.next, r.evictable = p.newest, none, true
	if p.newest == none {
		p.oldest = b
	} else {
		p.blocks[p.newest].next = b
	}
	p.newest = b
	p.evictable++
}

func (p *Pool) unlist(b ID) {
	r := &p.blocks[b]
	if r.prev == none {
		p.oldest = r.next
	} else {
		p.blocks[r.prev].next = r.next
	}
	if r.next == none {
		p.newest = r.prev
	} else {
		p.blocks[r.next].prev = r.prev
	}
	r.prev, r.next, r.evictable = none, none, false
	p.evictable--
}
