package tcp

import (
	"net"

	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// scratchBytes is how much a stream that copies holds.
const scratchBytes = 64 << 10

// stream moves bytes between a socket and memory that may be taken away meanwhile. One
// goroutine reads, one writes.
type stream interface {
	// Read reads at least one byte.
	Read(b []byte) (int, error)
	// readv moves some bytes into v and, when v is full, into spare; it returns how many went
	// to spare. When the passage is shut it moves none.
	readv(v *vector, p *passage, spare []byte) (int, error)
	// send writes head, then v and its trailer unless v is nil. When the passage is shut on the
	// way, zeros take the place of the rest, and the trailer says so.
	send(head []byte, v *vector, p *passage) error
}

// copied is the stream of a socket that hides its descriptor, as TLS does.
type copied struct {
	socket  net.Conn
	meter   *meter
	in, out []byte
	trailer [trailerBytes]byte
}

func (c *copied) Read(b []byte) (int, error) {
	n, err := c.socket.Read(b)
	if n > 0 {
		c.meter.heard.Store(true)
		return n, nil
	}
	return 0, err
}

func (c *copied) readv(v *vector, p *passage, _ []byte) (int, error) {
	if c.in == nil {
		c.in = make([]byte, scratchBytes)
	}
	n, err := c.Read(c.in[:min(p.room(v), scratchBytes)])
	if err != nil {
		return 0, err
	}
	if !p.enter() {
		v.skip(n) // it has been read
		return 0, nil
	}
	defer p.leave()
	fill(v, p, c.in[:n])
	return 0, nil
}

// fill copies b, which is not more than there is room for, into v, within the gates.
func fill(v *vector, p *passage, b []byte) {
	n := len(b)
	for at := v.place; len(b) > 0; {
		m := copy(v.run(at, len(b)), b)
		at = v.after(at, m)
		b = b[m:]
	}
	p.passed(v, n)
}

func (c *copied) send(head []byte, v *vector, p *passage) error {
	c.meter.writing.Store(true)
	defer c.meter.writing.Store(false)
	c.out = append(c.out[:0], head...)
	if v == nil {
		return c.flush()
	}
	for v.bytes > 0 {
		c.take(v, p, min(v.bytes, stretchBytes))
		if v.bytes == 0 {
			c.out = append(c.out, p.seal(&c.trailer)...)
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
	return nil
}

// take appends the next stretch of v, or zeros.
func (c *copied) take(v *vector, p *passage, n int) {
	if !p.enter() {
		v.skip(n)
		c.out = append(c.out, make([]byte, n)...)
		return
	}
	defer p.leave()
	if p.digest != nil {
		p.digest.stretch(v, v.place, n)
	}
	for n > 0 {
		b := v.front(n)
		c.out = append(c.out, b...)
		v.skip(len(b))
		n -= len(b)
	}
}

func (c *copied) flush() error {
	for b := c.out; len(b) > 0; {
		n, err := c.socket.Write(b[:min(len(b), scratchBytes)])
		if err != nil {
			return err
		}
		c.meter.wrote.Store(true)
		b = b[n:]
	}
	c.out = c.out[:0]
	return nil
}

// peek is how much is read ahead in search of the next frame.
const peek = 4 << 10

// reader finds frames in a stream.
type reader struct {
	stream stream
	meter  *meter
	buf    []byte
	r, w   int // buf[r:w] has come and was not used
}

func newReader(s stream, m *meter, limit int) reader {
	return reader{stream: s, meter: m, buf: make([]byte, wire.HeaderBytes+limit+peek)}
}

// next returns n bytes, valid until the next call.
func (r *reader) next(n int) ([]byte, error) {
	if len(r.buf)-r.r < n {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	for r.w-r.r < n {
		if r.r == r.w {
			r.r, r.w = 0, 0
		}
		r.meter.partial.Store(r.w > r.r)
		m, err := r.stream.Read(r.buf[r.w:min(len(r.buf), r.w+max(peek, n))])
		if err != nil {
			return r.buf[r.r:r.w], err
		}
		r.w += m
	}
	return r.buf[r.r : r.r+n], nil
}

// frame returns the next frame's kind and payload, which is valid until the next call.
func (r *reader) frame() (wire.Kind, []byte, error) {
	h, err := r.next(wire.HeaderBytes)
	if err != nil {
		return 0, nil, midway(err, len(h) > 0)
	}
	size, err := wire.Size(h, len(r.buf)-wire.HeaderBytes-peek)
	if err != nil {
		return 0, nil, err
	}
	frame, err := r.next(size)
	if err != nil {
		return 0, nil, midway(err, true)
	}
	r.r += size
	r.meter.partial.Store(false)
	r.meter.frames.Add(1)
	return wire.Open(frame)
}

// into fills v from the stream, or skips as many bytes when the passage is shut.
func (r *reader) into(v *vector, p *passage) error {
	for v.bytes > 0 {
		if p.err != nil {
			return r.discard(v.bytes)
		}
		if n := min(r.w-r.r, p.room(v)); n > 0 {
			if p.enter() {
				fill(v, p, r.buf[r.r:r.r+n])
				p.leave()
				r.r += n
			}
			continue
		}
		r.r, r.w = 0, 0
		spare, err := r.stream.readv(v, p, r.buf[:peek])
		if err != nil {
			return midway(err, true)
		}
		r.w = spare
	}
	return nil
}

func (r *reader) discard(n int) error {
	for n > 0 {
		if r.r == r.w {
			r.r, r.w = 0, 0
			m, err := r.stream.Read(r.buf)
			if err != nil {
				return midway(err, true)
			}
			r.w = m
		}
		m := min(n, r.w-r.r)
		r.r += m
		n -= m
	}
	return nil
}

// drain reads until the connection ends.
func (r *reader) drain() {
	for {
		if _, err := r.stream.Read(r.buf); err != nil {
			return
		}
	}
}
