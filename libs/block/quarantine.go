package block

import (
	"cmp"
	"slices"
	"time"
)

// Quarantined describes a ticket whose writer may still write. Blocks is to be read
// only.
type Quarantined struct {
	Writer   WriterID
	Ticket   uint64
	Transfer TransferID
	Attempt  AttemptID
	Blocks   []Ref
	// OverCap says that the writer has more blocks in QUARANTINE than the cap allows
	// and is to be fenced whole.
	OverCap bool
}

// Proof says that a writer can write no more: by the ticket of that number or, if
// it is 0, by any ticket of the writer that is in QUARANTINE now.
type Proof struct {
	Writer WriterID
	Ticket uint64
}

// lose takes the ticket from its holder, whose writes may still be under way: its
// blocks go to QUARANTINE, its hold ends, and the transfer may be claimed anew.
func (p *Pool) lose(x *transfer) Quarantined {
	p.endHold(holdKey{x.id, x.ticket.Attempt})
	return p.distrust(x)
}

// distrust is lose without the hold.
func (p *Pool) distrust(x *transfer) Quarantined {
	tk := x.ticket
	x.ticket = nil
	x.ended[tk.Attempt] = struct{}{}
	for _, ref := range tk.Blocks {
		p.move(ref.ID, Quarantine)
	}
	p.quarantine[tk.Number] = tk
	p.quarantineOf[tk.Writer] += len(tk.Blocks)
	return p.describe(tk)
}

func (p *Pool) describe(tk *ticket) Quarantined {
	return Quarantined{
		Writer: tk.Writer, Ticket: tk.Number, Transfer: tk.Transfer, Attempt: tk.Attempt,
		Blocks: tk.Blocks, OverCap: p.overCap(tk.Writer),
	}
}

func (p *Pool) overCap(w WriterID) bool { return p.quarantineOf[w] > p.config.QuarantineCap }

// Abort takes the ticket from the attempt because its writer is in doubt. False: the
// attempt holds none; it is remembered as ended all the same, so that a claim
// which the abort overtook gets ErrLater.
func (p *Pool) Abort(id TransferID, a AttemptID) (Quarantined, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.transfers[id]
	switch {
	case x == nil || x.committed:
		return Quarantined{}, false
	case x.ticket == nil || x.ticket.Attempt != a:
		x.ended[a] = struct{}{}
		return Quarantined{}, false
	}
	p.stats.Aborted++
	return p.lose(x), true
}

// AbortTicket is Abort by the ticket's number.
func (p *Pool) AbortTicket(number uint64) (Quarantined, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	qs := p.abortAll(func(tk *ticket) bool { return tk.Number == number })
	if len(qs) == 0 {
		return Quarantined{}, false
	}
	return qs[0], true
}

// AbortOver takes all tickets that name one of the blocks, whoever holds them, since the
// memory under the blocks is about to move.
func (p *Pool) AbortOver(blocks []ID) []Quarantined {
	moving := make(map[ID]bool, len(blocks))
	for _, b := range blocks {
		moving[b] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.abortAll(func(tk *ticket) bool {
		return slices.ContainsFunc(tk.Blocks, func(r Ref) bool { return moving[r.ID] })
	})
}

// AbortWriter takes all tickets and ends all holds of a writer that died or
// cannot be reached.
func (p *Pool) AbortWriter(w WriterID) []Quarantined {
	p.mu.Lock()
	defer p.mu.Unlock()
	qs := p.abortAll(func(tk *ticket) bool { return tk.Writer == w })
	for k, h := range p.holds {
		if h.reader == w {
			p.endHold(k)
		}
	}
	return qs
}

func (p *Pool) abortAll(match func(*ticket) bool) []Quarantined {
	qs := p.loseAll(match)
	p.stats.Aborted += uint64(len(qs))
	return qs
}

// loseAll takes the matching tickets from their holders, by ascending number.
func (p *Pool) loseAll(match func(*ticket) bool) []Quarantined {
	var qs []Quarantined
	for _, x := range p.transfers {
		if x.ticket != nil && !x.committed && match(x.ticket) {
			qs = append(qs, p.lose(x))
		}
	}
	byTicket(qs)
	return qs
}

func byTicket(qs []Quarantined) {
	slices.SortFunc(qs, func(a, b Quarantined) int { return cmp.Compare(a.Ticket, b.Ticket) })
}

// Expire ends the leases that are over at now. It returns the tickets that went to
// QUARANTINE by expiry since the last call, those superseded by a claim included.
func (p *Pool) Expire(now time.Time) []Quarantined {
	p.mu.Lock()
	defer p.mu.Unlock()
	qs := p.loseAll(func(tk *ticket) bool { return !tk.expiry.After(now) })
	p.stats.Expired += uint64(len(qs))
	for k, h := range p.holds {
		if !h.expiry.After(now) {
			p.endHold(k)
			delete(p.holds, k)
		}
	}
	qs = append(p.expired, qs...)
	p.expired = nil
	byTicket(qs)
	return qs
}

// Quarantined lists the tickets in QUARANTINE by ascending number.
func (p *Pool) Quarantined() []Quarantined {
	p.mu.Lock()
	defer p.mu.Unlock()
	qs := make([]Quarantined, 0, len(p.quarantine))
	for _, tk := range p.quarantine {
		qs = append(qs, p.describe(tk))
	}
	byTicket(qs)
	return qs
}

// Settle frees the blocks that the proof covers and returns the numbers of their tickets and of them.
func (p *Pool) Settle(pf Proof) (tickets, blocks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pf.Ticket != 0 {
		if tk := p.quarantine[pf.Ticket]; tk != nil && tk.Writer == pf.Writer {
			return 1, p.settle(tk)
		}
		return 0, 0
	}
	for _, tk := range p.quarantine {
		if tk.Writer == pf.Writer {
			tickets++
			blocks += p.settle(tk)
		}
	}
	return tickets, blocks
}

func (p *Pool) settle(tk *ticket) int {
	n := len(tk.Blocks)
	delete(p.quarantine, tk.Number)
	p.quarantineOf[tk.Writer] -= n
	if p.quarantineOf[tk.Writer] == 0 {
		delete(p.quarantineOf, tk.Writer)
	}
	for _, ref := range tk.Blocks {
		p.release(ref.ID)
	}
	p.stats.SettledBlocks += uint64(n)
	return n
}
