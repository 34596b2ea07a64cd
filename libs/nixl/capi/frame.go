package capi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// A frame is one NIXL notification: crc32c of what follows, 4 bytes; version, kind,
// direction, 0: 1 byte each; lengths of the sender's name and incarnation, 2 bytes
// each; link, number and taken, 8 bytes each; name, incarnation, payload. Numbers are little-endian.
const (
	frameVersion = 1
	headerBytes  = 36
	maxIDBytes   = 256
)

// kind is the type of a frame.
type kind byte

const (
	hello    kind = 1 // from the adding side, first; number 0
	welcome  kind = 2 // the answer; number 0
	refusal  kind = 3 // the other answer, without a number
	note     kind = 4
	goodbye  kind = 5 // from the adding side, last: no transfer of it is in flight, and none will be
	farewell kind = 6 // the answer to goodbye, without a number
	leave    kind = 7 // from the added side, last: it closes and waits for the goodbye
	alive    kind = 8 // a sign of life, without a number
)

// numbered tells whether frames of the kind are taken in the order of their numbers.
func (k kind) numbered() bool { return k == welcome || k == note || k == goodbye || k == leave }

// frame belongs to a link, which the adding side has numbered.
type frame struct {
	kind   kind
	adder  bool // the sender is the side that added the other
	sender nixl.PeerID
	link   uint64
	number uint64 // counts the sender's numbered frames on the link
	taken  uint64 // how many of the receiver's notes the sender has taken
	// payload is a greeting, an encoded refusal, or a note.
	payload []byte
}

// errFrame: the note is not one of ours, or was changed on its way.
var errFrame = errors.New("corrupt frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (f frame) encode() []byte {
	b := make([]byte, headerBytes, headerBytes+len(f.sender.Name)+len(f.sender.Incarnation)+len(f.payload))
	b[4], b[5] = frameVersion, byte(f.kind)
	if f.adder {
		b[6] = 1
	}
	binary.LittleEndian.PutUint16(b[8:], uint16(len(f.sender.Name)))
	binary.LittleEndian.PutUint16(b[10:], uint16(len(f.sender.Incarnation)))
	binary.LittleEndian.PutUint64(b[12:], f.link)
	binary.LittleEndian.PutUint64(b[20:], f.number)
	binary.LittleEndian.PutUint64(b[28:], f.taken)
	b = append(append(append(b, f.sender.Name...), f.sender.Incarnation...), f.payload...)
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// parseFrame reads what encode gave; the payload is part of b.
func parseFrame(b []byte) (frame, error) {
	if len(b) < headerBytes {
		return frame{}, fmt.Errorf("%w: %d bytes", errFrame, len(b))
	}
	if got, want := crc32.Checksum(b[4:], castagnoli), binary.LittleEndian.Uint32(b); got != want {
		return frame{}, fmt.Errorf("%w: crc32c is %08x, want %08x", errFrame, got, want)
	}
	f := frame{
		kind: kind(b[5]), adder: b[6] == 1,
		link: binary.LittleEndian.Uint64(b[12:]), number: binary.LittleEndian.Uint64(b[20:]), taken: binary.LittleEndian.Uint64(b[28:]),
	}
	name, incarnation := int(binary.LittleEndian.Uint16(b[8:])), int(binary.LittleEndian.Uint16(b[10:]))
	rest := b[headerBytes:]
	switch {
	case b[4] != frameVersion || b[6] > 1 || b[7] != 0:
		return frame{}, fmt.Errorf("%w: version %d, direction %d", errFrame, b[4], b[6])
	case f.kind < hello || f.kind > alive:
		return frame{}, fmt.Errorf("%w: type %d", errFrame, f.kind)
	case name == 0 || name > maxIDBytes || incarnation == 0 || incarnation > maxIDBytes || name+incarnation > len(rest):
		return frame{}, fmt.Errorf("%w: sender of %d and %d bytes in %d", errFrame, name, incarnation, len(rest))
	}
	f.sender = nixl.PeerID{Name: string(rest[:name]), Incarnation: string(rest[name:][:incarnation])}
	f.payload = rest[name+incarnation:]
	if f.kind == note && len(f.payload) > nixl.MaxNoteBytes {
		return frame{}, fmt.Errorf("%w: a note of %d bytes, want at most %d", errFrame, len(f.payload), nixl.MaxNoteBytes)
	}
	return f, nil
}
