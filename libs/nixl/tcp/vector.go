package tcp

import (
	"encoding/binary"
	"math/bits"

	"github.com/zeebo/xxh3"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
)

// vector is a list of runs of a region, consumed from its front. It is reused.
type vector struct {
	base  []byte
	spans []block.Span
	place     // of the first byte that is not used up
	bytes int // that are left
}

// place is a byte of a vector.
type place struct{ span, offset int }

func (v *vector) reset(base []byte) {
	v.base, v.spans, v.place, v.bytes = base, v.spans[:0], place{}, 0
}

// add appends a run within the base; neighbours become one.
func (v *vector) add(offset, n int) {
	v.bytes += n
	if last := len(v.spans) - 1; last >= 0 && v.spans[last].Offset+v.spans[last].Bytes == offset {
		v.spans[last].Bytes += n
		return
	}
	v.spans = append(v.spans, block.Span{Offset: offset, Bytes: n})
}

// run is the memory from a place to the end of its run, up to limit bytes.
func (v *vector) run(at place, limit int) []byte {
	s := v.spans[at.span]
	start := s.Offset + at.offset
	return v.base[start : start+min(s.Bytes-at.offset, limit)]
}

// after is the place n bytes on, at most the length of the run.
func (v *vector) after(at place, n int) place {
	if at.offset+n == v.spans[at.span].Bytes {
		return place{span: at.span + 1}
	}
	return place{at.span, at.offset + n}
}

// front is the memory of the first run, up to limit bytes.
func (v *vector) front(limit int) []byte { return v.run(v.place, limit) }

// skip consumes n bytes.
func (v *vector) skip(n int) {
	v.bytes -= n
	for n > 0 {
		m := len(v.front(n))
		v.place = v.after(v.place, m)
		n -= m
	}
}

// stretchBytes is how much is hashed at once, so that it is still in the cache when it is
// sent or has just come.
const stretchBytes = 256 << 10

// digest is the hash of a frame's bytes: the XXH3 of each stretch, folded in their order.
type digest struct {
	sum    uint64
	hasher xxh3.Hasher
}

// stretch adds the next stretch, n bytes from a place on.
func (d *digest) stretch(v *vector, at place, n int) {
	var sum uint64
	if b := v.run(at, n); len(b) == n {
		sum = xxh3.Hash(b)
	} else {
		d.hasher.Reset()
		for left := n; left > 0; {
			b := v.run(at, left)
			_, _ = d.hasher.Write(b) // never fails
			at = v.after(at, len(b))
			left -= len(b)
		}
		sum = d.hasher.Sum64()
	}
	d.sum = (bits.RotateLeft64(d.sum, 27) ^ sum) * 0x9E3779B185EBCA87
}

// passage is what the bytes of a frame must pass: the gates of the memory, and the hash.
type passage struct {
	gates  [3]*gate.Gate
	open   int     // how many gates there are
	digest *digest // nil: not verified
	err    error   // why the memory must not be used any more

	// Of the stretch that is being received.
	mark place
	come int
}

func (p *passage) reset(d *digest, gates ...*gate.Gate) {
	p.open = copy(p.gates[:], gates)
	p.digest, p.err, p.come = d, nil, 0
	if d != nil {
		d.sum = 0
	}
}

// room is how much may be received at once.
func (p *passage) room(v *vector) int {
	if p.digest == nil {
		return v.bytes
	}
	return min(v.bytes, stretchBytes-p.come)
}

// enter lets the memory be used until leave. It must not be kept while waiting for a peer.
func (p *passage) enter() bool {
	if p.err != nil {
		return false
	}
	for i, g := range p.gates[:p.open] {
		if err := g.Enter(); err != nil {
			for _, entered := range p.gates[:i] {
				entered.Leave()
			}
			p.err = err
			return false
		}
	}
	return true
}

func (p *passage) leave() {
	for _, g := range p.gates[:p.open] {
		g.Leave()
	}
}

// check asks the gates without entering them.
func (p *passage) check() error {
	for _, g := range p.gates[:p.open] {
		if err := g.Err(); err != nil {
			return err
		}
	}
	return nil
}

// passed consumes n bytes of v that have been received. It is called within the gates.
func (p *passage) passed(v *vector, n int) {
	if p.come == 0 {
		p.mark = v.place
	}
	v.skip(n)
	if p.come += n; p.digest != nil && (p.come == stretchBytes || v.bytes == 0) {
		p.digest.stretch(v, p.mark, p.come)
		p.come = 0
	}
}

// seal fills in the trailer of a frame.
func (p *passage) seal(b *[trailerBytes]byte) []byte {
	*b = [trailerBytes]byte{8: byte(codeOf(p.err))}
	if p.digest != nil && p.err == nil {
		binary.LittleEndian.PutUint64(b[:], p.digest.sum)
	}
	return b[:]
}
