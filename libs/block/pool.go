package block

import (
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// none ends the linked lists.
const none ID = -1

// defaultCapDivisor makes the default caps a quarter of the pool.
const defaultCapDivisor = 4

// Config sizes a Pool.
type Config struct {
	// Blocks is the capacity, in blocks.
	Blocks int
	// BlockTokens is the number of tokens that a block holds.
	BlockTokens int
	// Chain hashes the tokens of a full block onto the hash of the block before it
	// (prefix.Next). It need not be free of collisions: the pool compares tokens.
	Chain func(parent Hash, tokens []sequence.Token) Hash
	// HeldCap bounds the blocks held for remote readers; 0 is a quarter of Blocks.
	HeldCap int
	// QuarantineCap bounds the blocks in QUARANTINE on account of one writer, beyond
	// which it gets no more tickets; 0 is a quarter of Blocks.
	QuarantineCap int
	// Changes is how many changes of the index are kept until they are drained; 0 is
	// none, at no cost.
	Changes int
	// ChangeContent copies the tokens and the namespace into each change, too.
	ChangeContent bool
}

func (c Config) validate() error {
	for _, f := range []struct {
		name       string
		value, min int
	}{
		{"Blocks", c.Blocks, 1}, {"BlockTokens", c.BlockTokens, 1},
		{"HeldCap", c.HeldCap, 0}, {"QuarantineCap", c.QuarantineCap, 0}, {"Changes", c.Changes, 0},
	} {
		if f.value < f.min {
			return fmt.Errorf("block pool: %s is %d, want at least %d", f.name, f.value, f.min)
		}
	}
	if c.Chain == nil {
		return fmt.Errorf("block pool: Chain is nil, want a hash function")
	}
	return nil
}

// record is what the pool knows of one block; 64 bytes, so one cache line.
type record struct {
	generation Generation
	node       uint64 // number of the block's content among all ever indexed; 0: not shareable
	parent     uint64 // node of the block before it, or id of its space
	hash       Hash
	refs       int32 // tables that contain the block
	holds      int32 // remote readers
	prev, next ID    // neighbours in the list of evictable blocks
	left       ID    // ring of the blocks with this content;
	right      ID    // a block alone is its own neighbour
	state      State
	indexed    bool // the index names this block for its content
	first      bool // the block starts a sequence: parent is a space
	evictable  bool // in the list
}

// Pool is the blocks of one worker. Create it with NewPool.
type Pool struct {
	config Config

	mu     sync.Mutex // guards all below, and all Tables of the pool
	blocks []record
	tokens []sequence.Token // block b's lie at b · BlockTokens
	free   []ID             // a stack: memory touched before is used first
	booked int              // blocks promised to tables and not yet taken
	count  [States]int
	peak   [States]int
	stats  Stats

	index        map[Hash]ID
	nodes        uint64 // last number given to a node or a space
	spaces       map[string]*space
	spaceByID    map[uint64]*space
	oldest       ID // next to evict
	newest       ID
	evictable    int
	matched      []ID // scratch of match
	transfers    map[TransferID]*transfer
	tickets      uint64 // last number given to a ticket
	expired      []Quarantined
	holds        map[holdKey]*hold
	quarantine   map[uint64]*ticket
	quarantineOf map[WriterID]int // blocks
	changes      changes
}

// NewPool returns a pool whose blocks are all FREE. Its tables of tokens and blocks
// are allocated at once, about 64 + 4 · BlockTokens bytes per block.
func NewPool(c Config) (*Pool, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.HeldCap == 0 {
		c.HeldCap = c.Blocks / defaultCapDivisor
	}
	if c.QuarantineCap == 0 {
		c.QuarantineCap = c.Blocks / defaultCapDivisor
	}
	p := &Pool{
		config:       c,
		blocks:       make([]record, c.Blocks),
		tokens:       make([]sequence.Token, c.Blocks*c.BlockTokens),
		free:         make([]ID, c.Blocks),
		index:        make(map[Hash]ID),
		spaces:       make(map[string]*space),
		spaceByID:    make(map[uint64]*space),
		oldest:       none,
		newest:       none,
		transfers:    make(map[TransferID]*transfer),
		holds:        make(map[holdKey]*hold),
		quarantine:   make(map[uint64]*ticket),
		quarantineOf: make(map[WriterID]int),
		changes:      newChanges(c.Changes),
	}
	for i := range p.blocks {
		b := ID(i)
		p.blocks[b] = record{prev: none, next: none, left: b, right: b}
		p.free[c.Blocks-1-i] = b
	}
	p.count[Free], p.peak[Free] = c.Blocks, c.Blocks
	return p, nil
}

// Readable says whether a block holds rows that somebody may read: it is OPEN, SEALED or HELD.
func (p *Pool) Readable(b ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.blocks[b].state {
	case Open, Sealed, Held:
		return true
	}
	return false
}

// move changes a block's state; nothing else does.
func (p *Pool) move(b ID, to State) {
	r := &p.blocks[b]
	p.count[r.state]--
	r.state = to
	p.count[to]++
	p.peak[to] = max(p.peak[to], p.count[to])
}

// take starts a new use of a block. The caller has a booking, or has seen that
// available is positive, so there is a block.
func (p *Pool) take(to State) ID {
	if len(p.free) == 0 {
		p.evict()
	}
	last := len(p.free) - 1
	b := p.free[last]
	p.free = p.free[:last]
	p.blocks[b].generation++
	p.move(b, to)
	return b
}

// release ends the use of a block that nobody can write or read any more.
func (p *Pool) release(b ID) {
	p.move(b, Free)
	p.free = append(p.free, b)
}

// available is the number of blocks that are promised to nobody.
func (p *Pool) available() int { return len(p.free) + p.evictable - p.booked }

func (p *Pool) blocksFor(tokens int) int {
	return (tokens + p.config.BlockTokens - 1) / p.config.BlockTokens
}

// tokensOf is the room for the tokens of block b.
func (p *Pool) tokensOf(b ID) []sequence.Token {
	at, n := int(b)*p.config.BlockTokens, p.config.BlockTokens
	return p.tokens[at : at+n : at+n]
}

func (p *Pool) refsOf(blocks []ID) []Ref {
	refs := make([]Ref, len(blocks))
	for i, b := range blocks {
		refs[i] = Ref{b, p.blocks[b].generation}
	}
	return refs
}
