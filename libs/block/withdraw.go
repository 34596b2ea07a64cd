package block

import "fmt"

// Whether the hold of a transfer's reader outlives it.
const (
	endsHold = false
	keepHold = true
)

// Withdraw ends the transfer: by cancel, deadline or fallback. Blocks that nobody
// claimed are FREE and booked by the table again; claimed ones go to QUARANTINE; the
// hold ends. Later claims and notes are answered ErrGone. True: a Commit came
// first, so the blocks are the table's. Repeating it changes nothing.
func (p *Pool) Withdraw(id TransferID) (committed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.transfers[id]
	if x == nil || x.committed {
		return x != nil
	}
	p.withdraw(x, endsHold)
	return false
}

func (p *Pool) withdraw(x *transfer, keep bool) {
	t := x.table
	switch {
	case x.reserved != nil:
		for _, b := range x.reserved {
			p.release(b)
		}
		t.booked += x.need
		p.booked += x.need
	default:
		t.owed += x.need
		if x.ticket != nil && keep {
			p.distrust(x)
		} else if x.ticket != nil {
			p.lose(x)
		}
	}
	t.transfer = nil
	delete(p.transfers, x.id)
	p.stats.Withdrawn++
}

// Rebook books the blocks of the prompt that a withdrawn transfer lost to
// QUARANTINE, so that they can be opened for a local prefill or reserved for another
// transfer. ErrNoRoom: they are not to be had until a fence frees some.
func (t *Table) Rebook() error {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := t.usable(); err != nil {
		return fmt.Errorf("rebook: %w", err)
	}
	if room := p.available(); t.owed > room {
		return fmt.Errorf("rebook %d blocks, %d available: %w", t.owed, room, ErrNoRoom)
	}
	t.booked += t.owed
	p.booked += t.owed
	t.owed = 0
	return nil
}
