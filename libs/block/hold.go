package block

import (
	"fmt"
	"time"
)

// holdKey names a hold: one attempt at one transfer has one.
type holdKey struct {
	transfer TransferID
	attempt  AttemptID
}

// hold keeps blocks from eviction while a remote reader may read them. A hold that was
// released is remembered until its lease ends, so that a repeated release is
// answered as the first one was.
type hold struct {
	reader   WriterID
	blocks   []ID
	expiry   time.Time
	released bool
}

// hold begins the hold on the transfer's prefix, as far as the cap allows.
func (p *Pool) hold(x *transfer, c Claim) []Ref {
	k := holdKey{x.id, c.Attempt}
	p.endHold(k) // of a former transfer with the same id
	room, n := p.config.HeldCap-p.count[Held], 0
	hit := x.table.blocks[:x.table.cached]
	for _, b := range hit {
		if p.blocks[b].state == Sealed {
			if room == 0 {
				break
			}
			room--
		}
		n++
	}
	for _, b := range hit[:n] {
		if p.blocks[b].state == Sealed {
			p.move(b, Held)
		}
		p.blocks[b].holds++
	}
	// The table is released before the hold, perhaps: no part of it may be kept.
	h := &hold{reader: c.Writer, blocks: append([]ID(nil), hit[:n]...), expiry: c.Expiry}
	p.holds[k] = h
	return p.refsOf(h.blocks)
}

// HoldRoom is how many more blocks can be held for remote readers, hence how long a
// prefix a ticket can offer now, at least.
func (p *Pool) HoldRoom() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.config.HeldCap-p.count[Held])
}

// drop lets go of the blocks of a hold, last block first.
func (p *Pool) drop(h *hold) {
	for i := len(h.blocks) - 1; i >= 0; i-- {
		b := h.blocks[i]
		r := &p.blocks[b]
		r.holds--
		if r.holds > 0 {
			continue
		}
		p.move(b, Sealed)
		if r.refs == 0 {
			p.rest(b)
		}
	}
	h.blocks = nil
}

// endHold ends a hold otherwise than by its reader's release: whatever is read
// from now on must not be used, which a missing entry says.
func (p *Pool) endHold(k holdKey) {
	if h := p.holds[k]; h != nil && !h.released {
		p.drop(h)
		delete(p.holds, k)
	}
}

// ReleaseHold ends the hold of an attempt on the prefix. Nil says that the blocks were
// intact until now, and so does every repetition until the lease's end. ErrStale:
// the hold had ended before, what was read must be discarded.
func (p *Pool) ReleaseHold(id TransferID, a AttemptID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holds[holdKey{id, a}]
	if h == nil {
		p.stats.StaleHolds++
		return fmt.Errorf("release the hold of %s for %s: %w", id, a, ErrStale)
	}
	if !h.released {
		p.drop(h)
		h.released = true
	}
	return nil
}
