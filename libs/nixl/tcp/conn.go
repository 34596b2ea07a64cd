package tcp

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// meter tells the watch of a link what a connection does.
type meter struct {
	heard   atomic.Bool // bytes have come since the last look
	writing atomic.Bool // a write has begun and not returned
	wrote   atomic.Bool // some of it was taken since the last look
	partial atomic.Bool // a frame has begun to come and waits for its rest
	frames  atomic.Uint64
}

// conn is one of a link's connections.
type conn struct {
	socket net.Conn
	stream stream
	reader reader
	meter  *meter
	beats  chan struct{} // asks the writing loop for a sign of life

	bye     bool // the peer's goodbye was read; read when the loops have ended
	silent  int  // looks of the watch without a byte; the watch's own
	stalled int  // looks of the watch at a write that does not move; the watch's own
	late    int  // looks of the watch at a frame that does not end; the watch's own
	frames  uint64
}

func newConn(socket net.Conn, limit int) *conn {
	c := &conn{socket: socket, meter: new(meter), beats: make(chan struct{}, 1)}
	c.stream = newStream(socket, c.meter)
	c.reader = newReader(c.stream, c.meter, limit)
	return c
}

var beatFrame = wire.Append(nil, kindBeat, nil)

func (c *conn) send(frame []byte) error { return c.stream.send(frame, nil, nil) }

// close does not wait, as the end of a TLS connection would that has something left to say.
func (c *conn) close() {
	if t, ok := c.socket.(*tls.Conn); ok {
		t.NetConn().Close()
		return
	}
	c.socket.Close()
}

// farewell sends the last frame, after which only the peer's last is waited for.
func (c *conn) farewell(frame []byte) {
	if c.send(frame) != nil {
		return // the reading loop meets the end as well
	}
	if s, ok := c.socket.(interface{ CloseWrite() error }); ok {
		_ = s.CloseWrite() // as above
	}
}

// read passes frames to handle until the connection ends, and returns why. What the peer
// still sends after an error is read and dropped: else the system would answer it with a reset, and
// our goodbye would be lost.
func (c *conn) read(handle func(wire.Kind, []byte) error, stop func(error)) {
	for {
		k, payload, err := c.reader.frame()
		switch {
		case err == nil && k == wire.Goodbye:
			c.bye = true
			stop(parseGoodbye(payload))
			return
		case err == nil && k == kindBeat:
			continue
		case err == nil:
			err = handle(k, payload)
		}
		if err != nil {
			stop(gone(err))
			c.reader.drain()
			return
		}
	}
}

// gone is the cause of a link's end.
func gone(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: its end of the connection closed", nixl.ErrGone)
	}
	return fmt.Errorf("%w: %w", nixl.ErrGone, err)
}

// midway makes an end within a frame differ from one between two.
func midway(err error, inside bool) error {
	if err == io.EOF && inside {
		return io.ErrUnexpectedEOF
	}
	return err
}

func outOfPlace(k wire.Kind) error { return fmt.Errorf("%w: type %d out of place", wire.ErrFrame, k) }

// trailer reads what follows the bytes of a frame, and returns why they do not count.
func (c *conn) trailer(p *passage) (refused, err error) {
	b, err := c.reader.next(trailerBytes)
	if err != nil {
		return nil, midway(err, true)
	}
	c.reader.r += trailerBytes
	if err := code(b[8]).err(nil); err != nil {
		return err, nil
	}
	if p.err == nil && p.digest != nil {
		if got, want := p.digest.sum, binary.LittleEndian.Uint64(b); got != want {
			return fmt.Errorf("%w: xxh3 is %016x, want %016x", nixl.ErrChecksum, got, want), nil
		}
	}
	return p.err, nil
}
