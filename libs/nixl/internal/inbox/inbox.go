// Package inbox is an agent's queue of received events. Notes are bounded, their
// senders wait; the news that a peer is gone always finds a place, behind the
// notes that came before. It starts no goroutine.
package inbox

import (
	"context"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Inbox is made by New. Its methods may be called concurrently.
type Inbox struct {
	limit int

	mu      sync.Mutex // guards all below
	events  []nixl.Event
	notes   int
	closed  bool
	changed chan struct{} // closed and renewed at each change that someone may wait for
}

// New makes an inbox that holds up to limit notes.
func New(limit int) *Inbox {
	return &Inbox{limit: limit, changed: make(chan struct{})}
}

// Fits says whether a payload may be a note to peer.
func Fits(peer nixl.PeerID, payload []byte) error {
	if len(payload) > nixl.MaxNoteBytes {
		return fmt.Errorf("notify %s: %d bytes, want at most %d: %w", peer, len(payload), nixl.MaxNoteBytes, nixl.ErrTooLarge)
	}
	return nil
}

// PutNote waits for a place while ctx lasts. The closed inbox refuses with ErrClosed.
func (b *Inbox) PutNote(ctx context.Context, e nixl.Event) error {
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return nixl.ErrClosed
		}
		if b.notes < b.limit {
			b.notes++
			b.put(e)
			b.mu.Unlock()
			return nil
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// OfferNote puts a note where there is room for it at once, and tells whether there was.
func (b *Inbox) OfferNote(e nixl.Event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.notes >= b.limit {
		return false
	}
	b.notes++
	b.put(e)
	return true
}

// PutGone never waits.
func (b *Inbox) PutGone(peer nixl.PeerID, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.put(nixl.Event{Peer: peer, Gone: true, Err: cause})
	}
}

func (b *Inbox) put(e nixl.Event) {
	b.events = append(b.events, e)
	b.wake()
}

func (b *Inbox) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Receive waits for an event while ctx lasts; of the closed inbox it yields what
// is left, then ErrClosed.
func (b *Inbox) Receive(ctx context.Context) (nixl.Event, error) {
	for {
		e, changed, err := b.take()
		if err != nil || changed == nil {
			return e, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nixl.Event{}, ctx.Err()
		}
	}
}

// take returns an event, or the channel to wait for one.
func (b *Inbox) take() (nixl.Event, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 {
		if b.closed {
			return nixl.Event{}, nil, nixl.ErrClosed
		}
		return nixl.Event{}, b.changed, nil
	}
	e := b.events[0]
	b.events[0] = nixl.Event{} // the payload now belongs to the receiver alone
	b.events = b.events[1:]
	if !e.Gone {
		if b.notes == b.limit {
			b.wake()
		}
		b.notes--
	}
	return e, nil, nil
}

// Close wakes everyone. It is idempotent.
func (b *Inbox) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.wake()
	}
}
