// Package wire holds the frames in which agents talk over a stream of bytes, and the
// greeting with which a connection begins. It starts no goroutine.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// HeaderBytes is the size of a frame without its payload. A frame is: payload length, 4
// bytes; crc32c of type and payload, 4 bytes; type, 1 byte; payload. Numbers are
// little-endian.
const HeaderBytes = 9

// Kind is the type of a frame. A transport numbers kinds of its own from Own.
type Kind byte

// The kinds that transports share.
const (
	Hello   Kind = 1 // from the connecting side, first
	Welcome Kind = 2 // the answer
	Refusal Kind = 3 // the other answer
	Note    Kind = 4
	Goodbye Kind = 5 // the last frame of a side
	Own     Kind = 16
)

// MaxPayloadBytes holds the largest note and the largest metadata.
const MaxPayloadBytes = nixl.MaxNoteBytes

// ErrFrame: what follows on the connection cannot be trusted.
var ErrFrame = errors.New("corrupt frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends a frame to b.
func Append(b []byte, k Kind, payload []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, HeaderBytes)...)
	b = append(b, payload...)
	Seal(b[start:], k)
	return b
}

// Seal fills in the header of a frame whose payload lies behind HeaderBytes of room.
func Seal(frame []byte, k Kind) {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-HeaderBytes))
	frame[8] = byte(k)
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], castagnoli))
}

// Size is the size of the frame that begins with header, at least HeaderBytes long. A
// payload above limit is ErrFrame.
func Size(header []byte, limit int) (int, error) {
	if size := binary.LittleEndian.Uint32(header); size > uint32(limit) {
		return 0, fmt.Errorf("%w: %d bytes, want at most %d", ErrFrame, size, limit)
	}
	return HeaderBytes + int(binary.LittleEndian.Uint32(header)), nil
}

// Open checks a whole frame and returns what is in it, without a copy.
func Open(frame []byte) (Kind, []byte, error) {
	if got, want := crc32.Checksum(frame[8:], castagnoli), binary.LittleEndian.Uint32(frame[4:]); got != want {
		return 0, nil, fmt.Errorf("%w: crc32c is %08x, want %08x", ErrFrame, got, want)
	}
	return Kind(frame[8]), frame[HeaderBytes:], nil
}

// Read reads one frame into memory of its own. An end of the stream between two
// frames is io.EOF; a frame that is not sound is ErrFrame.
func Read(r io.Reader) (Kind, []byte, error) {
	var h [HeaderBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	return ReadRest(r, h)
}

// ReadRest is Read after the header.
func ReadRest(r io.Reader, h [HeaderBytes]byte) (Kind, []byte, error) {
	size, err := Size(h[:], MaxPayloadBytes)
	if err != nil {
		return 0, nil, err
	}
	frame := make([]byte, size)
	copy(frame, h[:])
	if _, err := io.ReadFull(r, frame[HeaderBytes:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return Open(frame)
}
