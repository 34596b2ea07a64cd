package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// noteWindow is how many notes may be on the way that the receiver's inbox has not taken.
// Without it, a full inbox would stop the connection, and its signs of life with it.
const noteWindow = 32

// notes is the connection of a link that carries the notes, in both directions.
type notes struct {
	conn  *conn
	queue chan []byte // frames to be sent
	wake  chan struct{}

	credit  atomic.Int64  // how many notes we may send
	arrived chan []byte   // notes for which the inbox had no room
	waiting atomic.Int64  // how many of them deliver has not dealt with
	taken   atomic.Uint32 // notes for which the peer has not got its credit back
}

func (n *notes) init(queue int) {
	n.queue, n.wake, n.arrived = make(chan []byte, queue), make(chan struct{}, 1), make(chan []byte, noteWindow)
	n.credit.Store(noteWindow)
}

func (n *notes) wakeUp() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// notify waits for a place in the queue while ctx lasts.
func (l *link) notify(ctx context.Context, payload []byte) error {
	if l.gate.Err() != nil {
		return nixl.ErrGone
	}
	frame := wire.Append(nil, wire.Note, payload)
	select {
	case l.notes.queue <- frame:
		return nil
	case <-l.stopping:
		return nixl.ErrGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) readNotes() {
	defer close(l.notes.arrived)
	l.notes.conn.read(l.receive, l.stop)
}

func (l *link) receive(k wire.Kind, payload []byte) error {
	switch {
	case k == wire.Note:
		return l.receiveNote(bytes.Clone(payload))
	case k == kindCredit && len(payload) == 4:
		more := int64(binary.LittleEndian.Uint32(payload))
		if more > noteWindow || l.notes.credit.Add(more) > noteWindow {
			return fmt.Errorf("%w: credit for more notes than there are", wire.ErrFrame)
		}
		l.notes.wakeUp()
		return nil
	}
	return outOfPlace(k)
}

// receiveNote puts the note into the inbox itself when nothing is in the way.
func (l *link) receiveNote(payload []byte) error {
	if l.notes.waiting.Load() == 0 && l.agent.inbox.OfferNote(nixl.Event{Peer: l.peer, Payload: payload}) {
		l.tookNote()
		return nil
	}
	l.notes.waiting.Add(1)
	select {
	case l.notes.arrived <- payload:
		return nil
	default:
		return fmt.Errorf("%w: more notes than it has credit for", wire.ErrFrame)
	}
}

func (l *link) tookNote() {
	if l.notes.taken.Add(1) >= noteWindow/4 {
		l.notes.wakeUp()
	}
}

// deliver moves notes into an inbox that was full; once ctx has ended only as far as
// there is room.
func (l *link) deliver(ctx context.Context) {
	for payload := range l.notes.arrived {
		if l.agent.inbox.PutNote(ctx, nixl.Event{Peer: l.peer, Payload: payload}) == nil {
			l.tookNote()
		}
		l.notes.waiting.Add(-1)
	}
}

func (l *link) writeNotes() {
	n := &l.notes
	for {
		if l.gate.Err() != nil {
			l.lastNotes()
			return
		}
		var queue chan []byte
		if n.credit.Load() > 0 {
			queue = n.queue
		}
		var frame []byte
		select {
		case frame = <-queue:
			n.credit.Add(-1)
		case <-n.wake:
		case <-n.conn.beats:
			frame = beatFrame
		case <-l.stopping:
			continue
		}
		if frame == nil {
			if n.taken.Load() < noteWindow/4 {
				continue
			}
			frame = wire.Append(nil, kindCredit, binary.LittleEndian.AppendUint32(nil, n.taken.Swap(0)))
		}
		if err := n.conn.send(frame); err != nil {
			l.stop(gone(err))
		}
	}
}

// lastNotes sends what is queued as far as there is credit, and the goodbye.
func (l *link) lastNotes() {
	for n := &l.notes; n.credit.Load() > 0; n.credit.Add(-1) {
		select {
		case frame := <-n.queue:
			if n.conn.send(frame) != nil {
				return
			}
			continue
		default:
		}
		break
	}
	l.notes.conn.farewell(l.goodbye())
}
