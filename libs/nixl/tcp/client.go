package tcp

import (
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// client is a data connection to a peer that we added: it sends requests, and receives
// answers in their order.
type client struct {
	*conn
	link *link
	wake chan struct{}

	// The request that is being sent; the writing loop's own.
	head    []byte
	vector  vector
	passage passage
	digest  digest
	sending *transfer

	// The data that are being received; the reading loop's own.
	into      vector
	inPassage passage
	inDigest  digest

	// Guarded by the outbox's mu.
	flights [window]flight // a ring
	first   int
	flying  int
	idle    bool
}

func (l *link) newClient(c *conn) *client {
	return &client{conn: c, link: l, wake: make(chan struct{}, 1), head: make([]byte, 0, wire.HeaderBytes+maxHead)}
}

func (c *client) push(f flight) {
	c.flights[(c.first+c.flying)%window] = f
	c.flying++
}

func (c *client) pop() flight {
	f := c.flights[c.first]
	c.flights[c.first] = flight{}
	c.first = (c.first + 1) % window
	c.flying--
	if c.flying == window-1 {
		c.wakeUp()
	}
	return f
}

func (c *client) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *client) write() {
	for {
		if c.link.outbox.take(c) {
			if err := c.sendRequest(); err != nil {
				c.link.stop(gone(err))
				return
			}
			continue
		}
		select {
		case <-c.wake:
		case <-c.beats:
			if err := c.send(beatFrame); err != nil {
				c.link.stop(gone(err))
				return
			}
		case <-c.link.stopping:
			c.farewell(c.link.goodbye())
			return
		}
	}
}

func (c *client) sendRequest() error {
	t, id := c.sending, c.sending.id
	if t.op == nixl.Read {
		return c.send(c.head)
	}
	c.passage.reset(nil, &t.local.Gate)
	if c.link.verify {
		c.passage.reset(&c.digest, &t.local.Gate)
	}
	if err := c.stream.send(c.head, &c.vector, &c.passage); err != nil {
		return err
	}
	if c.passage.err != nil {
		c.link.outbox.refuse(t, id, c.passage.err) // and the peer answers that it was given up
	}
	return nil
}

func (c *client) read() { c.conn.read(c.receive, c.link.stop) }

func (c *client) receive(k wire.Kind, payload []byte) error {
	switch k {
	case kindAnswer:
		id, refused, err := parseAnswer(payload)
		if err != nil {
			return err
		}
		f, err := c.link.outbox.oldest(c, id)
		if err == nil && f.t.op == nixl.Read && refused == nil {
			err = fmt.Errorf("%w: an answer without the bytes that were to be read", wire.ErrFrame)
		}
		if err == nil {
			c.link.outbox.answered(c, refused)
		}
		return err
	case kindData:
		return c.receiveData(payload)
	}
	return outOfPlace(k)
}

// receiveData takes bytes only for the request that is next, and only as many.
func (c *client) receiveData(payload []byte) error {
	id, bytes, flags, err := parseData(payload)
	if err != nil {
		return err
	}
	f, err := c.link.outbox.oldest(c, id)
	if err != nil {
		return err
	}
	if f.t.op != nixl.Read || bytes != f.bytes {
		return fmt.Errorf("%w: %d bytes for a %s of %d", wire.ErrFrame, bytes, f.t.op, f.bytes)
	}
	c.inPassage.reset(nil, &f.t.local.Gate)
	if flags&flagVerified != 0 {
		c.inPassage.reset(&c.inDigest, &f.t.local.Gate)
	}
	if c.link.outbox.failed(f.t) {
		c.inPassage.err = nixl.ErrCancelled
	}
	f.t.aim(&c.into, f.start, f.bytes)
	if err := c.reader.into(&c.into, &c.inPassage); err != nil {
		return err
	}
	refused, err := c.trailer(&c.inPassage)
	if err != nil {
		return err
	}
	c.link.outbox.answered(c, refused)
	return suspicious(refused)
}

// suspicious ends a connection that has damaged bytes.
func suspicious(refused error) error {
	if codeOf(refused) == codeChecksum {
		return refused
	}
	return nil
}
