package block

import (
	"fmt"
	"time"
)

// transfer is one remote prefill into a table. It is known to the pool from Reserve
// until its withdrawal or, once committed, until the table's release.
//
// A transfer that is not committed has its blocks either in reserved or in ticket;
// in neither after a ticket was lost, until the next claim takes fresh ones.
type transfer struct {
	id        TransferID
	table     *Table
	need      int // blocks of the uncached prompt
	reserved  []ID
	ticket    *ticket // once committed: the one that was
	ended     map[AttemptID]struct{}
	grants    int
	committed bool
}

// ticket is a granted claim and its lease.
type ticket struct {
	Ticket
	expiry time.Time
}

// Ticket entitles one attempt of one writer to write blocks once. Its slices are the
// pool's, to be read only.
type Ticket struct {
	// Number is assigned by the pool; it grows and is never 0.
	Number   uint64
	Transfer TransferID
	Attempt  AttemptID
	Writer   WriterID
	// Blocks hold the positions [From, To), From being the first row of the first.
	Blocks []Ref
	// Prefix is a leading run of the blocks before From, held for the same attempt to
	// read; shorter than the hit, or empty, when the pool holds too many.
	Prefix []Ref
	// From is the number of tokens that the sequence hit in the cache.
	From int
	// To is the length of the prompt, in tokens.
	To int
	// Grants is how many tickets the transfer has been granted, this one included.
	Grants int
	// Repeated says that the attempt held this ticket before the call.
	Repeated bool
}

// Claim is what a writer says when it asks for a ticket.
type Claim struct {
	Attempt AttemptID
	Writer  WriterID
	// Now is the time of the call, Expiry the end of the lease.
	Now, Expiry time.Time
}

// Reserve sets the blocks of the uncached prompt aside for a remote writer, out of
// what was booked. It must come before the first Extend.
func (t *Table) Reserve(id TransferID) ([]Ref, error) {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	need := p.blocksFor(len(t.prompt)) - t.cached
	switch err := t.usable(); {
	case err != nil:
		return nil, fmt.Errorf("reserve for transfer %s: %w", id, err)
	case t.transfer != nil || len(t.blocks) > t.cached:
		return nil, fmt.Errorf("reserve for transfer %s: the prompt was begun already", id)
	case p.transfers[id] != nil:
		return nil, fmt.Errorf("reserve for transfer %s: the id is in use", id)
	case t.owed > 0:
		return nil, fmt.Errorf("reserve for transfer %s: the last one lost %d blocks, Rebook them first", id, t.owed)
	}
	x := &transfer{id: id, table: t, need: need, ended: make(map[AttemptID]struct{})}
	p.reserve(x)
	t.booked -= need
	p.booked -= need
	t.transfer = x
	p.transfers[id] = x
	return p.refsOf(x.reserved), nil
}

// reserve takes fresh blocks for a transfer.
func (p *Pool) reserve(x *transfer) {
	x.reserved = make([]ID, x.need)
	for i := range x.reserved {
		x.reserved[i] = p.take(Reserved)
	}
}

// Claim gives a ticket for the transfer to one attempt at a time; the same attempt
// gets the same ticket again, and its lease is prolonged. Once the holder's lease has
// ended or it was aborted, another attempt gets fresh blocks.
//
// ErrLater: another attempt holds the ticket, or this attempt has ended, or fresh
// blocks are not to be had. ErrGone: the transfer is unknown, committed or
// withdrawn. ErrFenced: too many blocks are in QUARANTINE for this writer.
func (p *Pool) Claim(id TransferID, c Claim) (Ticket, error) {
	if c.Attempt == "" || c.Writer == "" || !c.Expiry.After(c.Now) {
		return Ticket{}, fmt.Errorf("claim %s: attempt %q, writer %q, lease of %v; want names and a lease above 0",
			id, c.Attempt, c.Writer, c.Expiry.Sub(c.Now))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.transfers[id]
	if x == nil || x.committed {
		p.stats.GoneClaims++
		return Ticket{}, fmt.Errorf("claim %s: %w", id, ErrGone)
	}
	if tk := x.ticket; tk != nil && !tk.expiry.After(c.Now) {
		p.expired = append(p.expired, p.lose(x))
		p.stats.Expired++
	}
	if tk := x.ticket; tk != nil && tk.Attempt == c.Attempt && tk.Writer == c.Writer {
		p.renew(tk, c.Expiry)
		p.stats.RepeatedClaims++
		again := tk.Ticket
		again.Repeated = true
		return again, nil
	}
	if _, ended := x.ended[c.Attempt]; ended || x.ticket != nil {
		p.stats.LaterClaims++
		return Ticket{}, fmt.Errorf("claim %s by %s: %w", id, c.Attempt, ErrLater)
	}
	if p.overCap(c.Writer) {
		p.stats.FencedClaims++
		return Ticket{}, fmt.Errorf("claim %s by %s: %w", id, c.Writer, ErrFenced)
	}
	if x.reserved == nil {
		if x.need > p.available() {
			p.stats.LaterClaims++
			return Ticket{}, fmt.Errorf("claim %s: %d fresh blocks, %d available: %w", id, x.need, p.available(), ErrLater)
		}
		p.reserve(x)
	}
	return p.grant(x, c), nil
}

func (p *Pool) grant(x *transfer, c Claim) Ticket {
	for _, b := range x.reserved {
		p.move(b, Claimed)
	}
	p.tickets++
	p.stats.Claims++
	x.grants++
	x.ticket = &ticket{expiry: c.Expiry, Ticket: Ticket{
		Number: p.tickets, Transfer: x.id, Attempt: c.Attempt, Writer: c.Writer,
		Blocks: p.refsOf(x.reserved), Prefix: p.hold(x, c),
		From: x.table.cachedTokens(), To: len(x.table.prompt), Grants: x.grants,
	}}
	x.reserved = nil
	return x.ticket.Ticket
}

// Renew moves the end of the attempt's lease. ErrStale: the attempt does not hold the
// ticket, or no longer. ErrGone: the transfer is unknown, committed or withdrawn.
func (p *Pool) Renew(id TransferID, a AttemptID, expiry time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.transfers[id]
	switch {
	case x == nil || x.committed:
		return fmt.Errorf("renew %s: %w", id, ErrGone)
	case x.ticket == nil || x.ticket.Attempt != a:
		return fmt.Errorf("renew %s for %s: %w", id, a, ErrStale)
	}
	p.renew(x.ticket, expiry)
	return nil
}

func (p *Pool) renew(tk *ticket, expiry time.Time) {
	tk.expiry = expiry
	if h := p.holds[holdKey{tk.Transfer, tk.Attempt}]; h != nil {
		h.expiry = expiry
	}
}
