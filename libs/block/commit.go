package block

import (
	"fmt"
	"slices"
)

// Receipt is what a writer's completion note says of the blocks.
type Receipt struct {
	// Writer is who sent the note.
	Writer WriterID
	// Ticket is the number of the ticket used.
	Ticket uint64
	// Blocks are the ticket's.
	Blocks []Ref
	// Tokens is how many rows of the sequence are in place: the ticket's To.
	Tokens int
}

// answers says that the receipt is for exactly what the ticket granted.
func (r *Receipt) answers(tk *ticket) bool {
	return tk != nil && r.Ticket == tk.Number && r.Writer == tk.Writer && r.Tokens == tk.To &&
		slices.Equal(r.Blocks, tk.Blocks)
}

// Commit makes the written blocks part of the transfer's table if the receipt names
// the transfer, the ticket that counts and every block in its generation.
//
// Nil: this call did it. ErrCommitted: an equal receipt did it before. ErrStale: the
// receipt is not for the ticket that counts. ErrGone: the transfer is unknown or
// withdrawn. With these errors nothing is committed, but the exact receipt for a
// ticket in QUARANTINE is its writer's word that it has finished, and settles it.
func (p *Pool) Commit(id TransferID, r Receipt) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.transfers[id]
	if x != nil && r.answers(x.ticket) {
		if x.committed {
			p.stats.DuplicateNotes++
			return fmt.Errorf("commit %s by ticket %d: %w", id, r.Ticket, ErrCommitted)
		}
		p.commit(x)
		return nil
	}
	if tk := p.quarantine[r.Ticket]; tk != nil && tk.Transfer == id && r.answers(tk) {
		p.settle(tk)
		p.stats.LateNotes++
	}
	if x == nil {
		p.stats.GoneNotes++
		return fmt.Errorf("commit %s by ticket %d: %w", id, r.Ticket, ErrGone)
	}
	p.stats.StaleNotes++
	return fmt.Errorf("commit %s by ticket %d: %w", id, r.Ticket, ErrStale)
}

func (p *Pool) commit(x *transfer) {
	t := x.table
	for _, ref := range x.ticket.Blocks {
		t.add(ref.ID)
	}
	t.fill(t.prompt[t.len:])
	if t.len%p.config.BlockTokens != 0 {
		p.move(t.blocks[len(t.blocks)-1], Open)
	}
	x.committed = true
	p.stats.Commits++
}
