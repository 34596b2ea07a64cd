package block

// Counts says how many blocks are in each state.
type Counts struct {
	// Now is counted from the blocks themselves, Peak is the highest number since
	// the pool was made; both by State.
	Now, Peak [States]int
	// Booked blocks are promised to tables: FREE or evictable ones, not yet chosen.
	Booked int
	// Evictable blocks are SEALED and used by nobody.
	Evictable int
	// Capacity is the number of blocks.
	Capacity int
}

// Stats counts what has happened since the pool was made.
type Stats struct {
	// Admitted sequences, the tokens they came with and those found in the cache.
	Admitted, PromptTokens, CachedTokens uint64
	// Claims that were granted a ticket, that got their ticket again, or were refused.
	Claims, RepeatedClaims, LaterClaims, GoneClaims, FencedClaims uint64
	// Tickets that were lost, and transfers that were withdrawn.
	Expired, Aborted, Withdrawn uint64
	// Completion notes: committed, committed before, not for the ticket that
	// counts, for a transfer that is gone.
	Commits, DuplicateNotes, StaleNotes, GoneNotes uint64
	// LateNotes are those of the stale and gone ones that settled their own ticket.
	LateNotes uint64
	// SettledBlocks left QUARANTINE.
	SettledBlocks uint64
	// StaleHolds are releases of a hold that had ended.
	StaleHolds uint64
	// Collisions are equal hashes of unequal content.
	Collisions uint64
	// DuplicateBlocks were sealed with a content that was indexed already.
	DuplicateBlocks uint64
	// Evictions are sealed blocks that made room.
	Evictions uint64
}

// Available is the number of blocks that could be booked now.
func (p *Pool) Available() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.available()
}

// Counts looks at every block.
func (p *Pool) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := Counts{Peak: p.peak, Booked: p.booked, Evictable: p.evictable, Capacity: len(p.blocks)}
	for i := range p.blocks {
		c.Now[p.blocks[i].state]++
	}
	return c
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Generation is the current one of block b, which must be of this pool.
func (p *Pool) Generation(b ID) Generation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocks[b].generation
}
