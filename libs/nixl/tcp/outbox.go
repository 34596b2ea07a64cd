package tcp

import (
	"context"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// window is how many requests of a data connection may be unanswered.
const window = 64

// flight is a request that was sent and not answered.
type flight struct {
	t     *transfer
	id    uint64
	start cursor
	bytes int
}

// outbox holds the posted transfers of a link in their order, and cuts them into
// requests. The data connections serve themselves from it.
type outbox struct {
	link    *link
	clients []*client
	places  chan struct{} // bounds the transfers in queue

	mu    sync.Mutex // guards all below, the flights of clients, and the transfers' own part
	queue []*transfer
	idle  []*client // that wait for work
	ended bool
	posts uint64
}

func newOutbox(l *link, places int) *outbox {
	return &outbox{link: l, places: make(chan struct{}, places)}
}

// post waits for a place while ctx lasts.
func (o *outbox) post(ctx context.Context, t *transfer) error {
	select {
	case o.places <- struct{}{}:
	default:
		select {
		case o.places <- struct{}{}:
		case <-o.link.stopping:
			return o.link.gate.Err()
		case <-ctx.Done():
			return fmt.Errorf("wait for a place among %d queued transfers: %w", cap(o.places), ctx.Err())
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		<-o.places
		return o.link.gate.Err()
	}
	o.posts++
	t.begin(o.posts)
	o.queue = append(o.queue, t)
	if t.Cancelled() {
		o.fail(t, nixl.ErrCancelled)
		return nil
	}
	o.wake()
	return nil
}

// wake sends one idle connection to work; it wakes the next if there is more.
func (o *outbox) wake() {
	if n := len(o.idle); n > 0 {
		c := o.idle[n-1]
		o.idle = o.idle[:n-1]
		c.idle = false
		c.wakeUp()
	}
}

// take cuts the next request for a connection, or lists the connection as idle.
func (o *outbox) take(c *client) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.link.gate.Err() != nil || c.flying == window {
		return false
	}
	for len(o.queue) > 0 {
		t := o.queue[0]
		if err := t.local.Gate.Err(); err != nil {
			o.fail(t, err)
			continue
		}
		if t.op == nixl.Read && o.passOn(c) {
			break
		}
		start := t.cursor
		n := t.cut(c)
		if t.finished() {
			o.dequeue(t)
		}
		if n == 0 { // there were no bytes in it
			o.settle(t)
			continue
		}
		t.flying++
		c.push(flight{t, t.id, start, n})
		if len(o.queue) > 0 {
			o.wake()
		}
		return true
	}
	if !c.idle {
		c.idle = true
		o.idle = append(o.idle, c)
	}
	return false
}

// passOn leaves a read to a connection that waits for fewer. Requests to read are sent in no
// time: the first connection would take them all.
func (o *outbox) passOn(c *client) bool {
	for i, other := range o.idle {
		if other.flying < c.flying {
			last := len(o.idle) - 1
			o.idle[i], o.idle[last] = o.idle[last], other
			o.wake()
			return true
		}
	}
	return false
}

func (o *outbox) dequeue(t *transfer) {
	for i, q := range o.queue {
		if q == t {
			o.queue = append(o.queue[:i], o.queue[i+1:]...)
			<-o.places
			return
		}
	}
}

// fail lets no further request of a transfer be sent.
func (o *outbox) fail(t *transfer, err error) {
	if t.err == nil {
		t.err = err
	}
	o.dequeue(t)
	o.settle(t)
}

// settle ends a transfer of which nothing is under way and nothing will be.
func (o *outbox) settle(t *transfer) {
	if t.settled || t.flying > 0 || t.err == nil && !t.finished() {
		return
	}
	t.settled = true
	t.conclude(o.link)
}

// refuse fails the transfer of a request that is under way.
func (o *outbox) refuse(t *transfer, id uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.id == id && !t.settled {
		o.fail(t, err)
	}
}

// cancel is Cancel's part.
func (o *outbox) cancel(t *transfer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !t.settled && !t.finished() {
		o.fail(t, nixl.ErrCancelled)
	}
}

// answered takes the oldest request of a connection as answered.
func (o *outbox) answered(c *client, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := c.pop()
	f.t.flying--
	if err != nil {
		o.fail(f.t, err)
		return
	}
	f.t.moved += uint64(f.bytes)
	o.settle(f.t)
}

// oldest is the request that is to be answered next. The answer must be for it.
func (o *outbox) oldest(c *client, id uint64) (flight, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.flying == 0 {
		return flight{}, fmt.Errorf("%w: an answer to nothing", wire.ErrFrame)
	}
	if f := c.flights[c.first]; f.id == id {
		return f, nil
	}
	return flight{}, fmt.Errorf("%w: an answer to transfer %d out of turn", wire.ErrFrame, id)
}

// failed tells whether the transfer will not complete anyway.
func (o *outbox) failed(t *transfer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return t.err != nil
}

// end settles all transfers. The loops of the link have ended: nothing is sent any more, and
// nothing written to our memory.
func (o *outbox) end(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for len(o.queue) > 0 {
		o.fail(o.queue[0], cause)
	}
	for _, c := range o.clients {
		for c.flying > 0 {
			f := c.pop()
			f.t.flying--
			// Bytes that we wrote may still lie before the peer, unless it said good bye.
			f.t.doubtful = f.t.doubtful || f.t.op == nixl.Write && !c.bye
			o.fail(f.t, cause)
		}
	}
}
