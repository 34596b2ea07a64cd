package block

import (
	"maps"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Snapshot is all that a worker can find by its hash at one moment.
type Snapshot struct {
	// Sequence is that of the last change before that moment.
	Sequence uint64
	// Blocks are Stored changes: of one tier after another, parents before their
	// children, and a child right after its parent wherever that can be.
	Blocks []Change
}

// Snapshot copies the pool's tables under the lock that the changes are numbered under, which takes
// about 10 ns per block of the pool, and makes the rest of it after.
func (p *Pool) Snapshot() Snapshot {
	c := p.copyTables()
	s := Snapshot{Sequence: c.sequence, Blocks: c.device()}
	order(s.Blocks)
	for t, held := range c.lower {
		at := len(s.Blocks)
		for h, parent := range held {
			s.Blocks = append(s.Blocks, Change{Kind: Stored, Tier: Tier(t), Hash: h, Parent: parent})
		}
		order(s.Blocks[at:])
	}
	return s
}

// tables are a pool's at one moment.
type tables struct {
	sequence uint64
	size     int // of a block, in tokens
	indexed  int // blocks
	blocks   []record
	tokens   []sequence.Token // none unless they are asked for
	spaces   map[uint64]space
	lower    [Tiers]map[Hash]Hash
}

func (p *Pool) copyTables() tables {
	// Memory is taken and touched before, not under the lock.
	c := tables{size: p.config.BlockTokens, blocks: make([]record, len(p.blocks))}
	clear(c.blocks)
	if p.config.ChangeContent {
		c.tokens = make([]sequence.Token, len(p.tokens))
		clear(c.tokens)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.sequence, c.indexed = p.changes.total, len(p.index)
	copy(c.blocks, p.blocks)
	copy(c.tokens, p.tokens)
	c.spaces = make(map[uint64]space, len(p.spaceByID))
	for id, s := range p.spaceByID {
		c.spaces[id] = *s
	}
	for t, held := range p.changes.lower {
		c.lower[t] = maps.Clone(held)
	}
	return c
}

// device lists what the index names. A parent never leaves it before its children.
func (c *tables) device() []Change {
	hashOf := make(map[uint64]Hash, c.indexed)
	for i := range c.blocks {
		if r := &c.blocks[i]; r.indexed {
			hashOf[r.node] = r.hash
		}
	}
	all := make([]Change, 0, c.indexed)
	for i := range c.blocks {
		r := &c.blocks[i]
		if !r.indexed {
			continue
		}
		s := Change{Kind: Stored, Hash: r.hash, Parent: hashOf[r.parent]}
		if r.first {
			s.Parent = c.spaces[r.parent].root
		}
		if c.tokens != nil {
			s.Content = &Content{First: r.first, Tokens: c.tokens[i*c.size : (i+1)*c.size : (i+1)*c.size]}
			if r.first {
				s.Content.Namespace = c.spaces[r.parent].name
			}
		}
		all = append(all, s)
	}
	return all
}

// order sorts blocks of distinct hashes depth first. Blocks whose parents are not among
// them come first; what only a cycle of wrong parents can leave over comes last.
func order(blocks []Change) {
	at := make(map[Hash]int32, len(blocks))
	for i := range blocks {
		at[blocks[i].Hash] = int32(i)
	}
	// The children of block i are child[i], sibling[child[i]], …; -1 ends the list.
	child, sibling := make([]int32, len(blocks)), make([]int32, len(blocks))
	for i := range child {
		child[i] = -1
	}
	var stack []int32
	for i := range blocks {
		if parent, ok := at[blocks[i].Parent]; ok {
			sibling[i], child[parent] = child[parent], int32(i)
		} else {
			stack = append(stack, int32(i))
		}
	}
	out := make([]Change, 0, len(blocks))
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		out = append(out, blocks[i])
		delete(at, blocks[i].Hash)
		for c := child[i]; c >= 0; c = sibling[c] {
			stack = append(stack, c)
		}
	}
	for i := range blocks {
		if _, left := at[blocks[i].Hash]; left {
			out = append(out, blocks[i])
		}
	}
	copy(blocks, out)
}
