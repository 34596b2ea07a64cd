package block

import (
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Prompt is what a sequence starts from.
type Prompt struct {
	// Tokens are all that exist already, at least one. The table keeps the slice until
	// its Release; it must not be modified.
	Tokens []sequence.Token
	// Namespace names the model, LoRA and salt. Blocks are shared only within one.
	Namespace string
	// Root is where the hash chain of the namespace starts (prefix.Root): always the same.
	Root Hash
}

// Table is the blocks of one sequence, in order: position p lies in
// Blocks()[p / BlockTokens], row p mod BlockTokens.
type Table struct {
	pool   *Pool
	prompt []sequence.Token
	space  *space
	cached int // leading blocks that were hit

	// Guarded by pool.mu.
	blocks   []ID
	tip      tip
	len      int // rows in place
	booked   int // blocks promised and not yet taken
	owed     int // blocks of the prompt that a withdrawn transfer lost to QUARANTINE
	transfer *transfer
	released bool
}

// Admit matches the longest sealed prefix of the prompt and books the other blocks of
// a sequence that will have totalBlocks in the end, all or nothing. It returns
// ErrNoRoom if they are not to be had now, ErrTooLarge if they never can be.
func (p *Pool) Admit(pr Prompt, totalBlocks int) (*Table, error) {
	need := p.blocksFor(len(pr.Tokens))
	switch {
	case need == 0:
		return nil, fmt.Errorf("admit: the prompt is empty, want at least 1 token")
	case totalBlocks < need:
		return nil, fmt.Errorf("admit: %d blocks in total, want at least the prompt's %d", totalBlocks, need)
	case totalBlocks > p.config.Blocks:
		return nil, fmt.Errorf("admit %d blocks of %d: %w", totalBlocks, p.config.Blocks, ErrTooLarge)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	end := p.match(pr)
	book, room := totalBlocks-len(p.matched), p.available()
	for _, b := range p.matched {
		if p.blocks[b].evictable {
			room--
		}
	}
	if book > room {
		return nil, fmt.Errorf("admit: %d blocks to book, %d available: %w", book, room, ErrNoRoom)
	}
	t := &Table{
		pool: p, prompt: pr.Tokens, space: p.enter(pr.Namespace, pr.Root), cached: len(p.matched),
		blocks: append(make([]ID, 0, totalBlocks), p.matched...), tip: end,
		len: len(p.matched) * p.config.BlockTokens, booked: book,
	}
	if t.cached == 0 {
		t.tip.node = t.space.id // the space may be new
	}
	for _, b := range t.blocks {
		if p.blocks[b].evictable {
			p.unlist(b)
		}
		p.blocks[b].refs++
	}
	p.booked += book
	p.stats.Admitted++
	p.stats.PromptTokens += uint64(len(pr.Tokens))
	p.stats.CachedTokens += uint64(t.len)
	return t, nil
}

// CachedTokens is the length of the prefix hit, Rematch's included: whole blocks, at
// least one token short of the prompt.
func (t *Table) CachedTokens() int {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return t.cachedTokens()
}

func (t *Table) cachedTokens() int { return t.cached * t.pool.config.BlockTokens }

// Len is the number of rows in place, hence the next position to compute.
func (t *Table) Len() int {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return t.len
}

// Blocks returns the blocks that the sequence has so far. The elements of the
// returned slice never change; later blocks are in later slices only.
func (t *Table) Blocks() []ID {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return t.blocks[:len(t.blocks):len(t.blocks)]
}

// usable reports why the table's owner may not write now.
func (t *Table) usable() error {
	switch {
	case t.released:
		return fmt.Errorf("the table was released")
	case t.pending():
		return fmt.Errorf("transfer %s is pending", t.transfer.id)
	}
	return nil
}

// pending says that a remote writer may still fill the prompt's blocks.
func (t *Table) pending() bool { return t.transfer != nil && !t.transfer.committed }

// Extend opens blocks, out of what was booked, until the positions [0, tokens) are
// covered.
func (t *Table) Extend(tokens int) error {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := t.usable(); err != nil {
		return fmt.Errorf("extend to %d tokens: %w", tokens, err)
	}
	n := p.blocksFor(tokens) - len(t.blocks)
	switch {
	case n <= 0:
		return nil
	case t.owed > 0:
		return fmt.Errorf("extend to %d tokens: a transfer lost %d blocks, Rebook them first", tokens, t.owed)
	case n > t.booked:
		return fmt.Errorf("extend to %d tokens: needs %d blocks, %d are booked", tokens, n, t.booked)
	}
	for range n {
		t.add(p.take(Open))
	}
	t.booked -= n
	p.booked -= n
	return nil
}

// add makes b the next block of the table.
func (t *Table) add(b ID) {
	t.pool.blocks[b].refs = 1
	t.blocks = append(t.blocks, b)
}

// Advance says that the rows after Len are written with these tokens. Blocks that
// became full are sealed.
func (t *Table) Advance(tokens []sequence.Token) error {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := t.usable(); err != nil {
		return fmt.Errorf("advance by %d tokens: %w", len(tokens), err)
	}
	if room := len(t.blocks)*p.config.BlockTokens - t.len; len(tokens) > room {
		return fmt.Errorf("advance by %d tokens: the open blocks have room for %d", len(tokens), room)
	}
	t.fill(tokens)
	return nil
}

// fill records the tokens of new rows in the blocks that have them.
func (t *Table) fill(tokens []sequence.Token) {
	size := t.pool.config.BlockTokens
	for len(tokens) > 0 {
		i, row := t.len/size, t.len%size
		n := copy(t.pool.tokensOf(t.blocks[i])[row:], tokens)
		tokens = tokens[n:]
		t.len += n
		if row+n == size {
			t.tip = t.pool.seal(t.blocks[i], t.tip, i == 0)
		}
	}
}

// Release gives up the sequence: open blocks become FREE, sealed ones stay cached
// until they are evicted, and the booking returns. A pending transfer ends as by
// Withdraw, but its holds stay until ReleaseHold or the end of their lease. Further
// calls do nothing.
func (t *Table) Release() {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.released {
		return
	}
	t.released = true
	if t.pending() {
		p.withdraw(t.transfer, keepHold)
	} else if t.transfer != nil {
		delete(p.transfers, t.transfer.id)
	}
	p.booked -= t.booked
	t.booked, t.owed = 0, 0
	// Last block first: a child is evicted before its parent.
	for i := len(t.blocks) - 1; i >= 0; i-- {
		b := t.blocks[i]
		r := &p.blocks[b]
		r.refs--
		switch {
		case r.state == Open:
			p.release(b)
		case r.refs == 0 && r.holds == 0:
			p.rest(b)
		}
	}
	p.leave(t.space)
	t.blocks, t.prompt, t.transfer = nil, nil, nil
}
