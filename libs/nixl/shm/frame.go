//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// A frame is: payload length, 4 bytes; crc32c of type and payload, 4 bytes; type,
// 1 byte; payload. Numbers are little-endian.
const headerBytes = 9

// kind is the type of a frame.
type kind byte

const (
	hello   kind = 1 // from the connecting side, first
	welcome kind = 2 // the answer, with the regions' descriptors
	refusal kind = 3 // the other answer
	note    kind = 4
	goodbye kind = 5 // from the connecting side, last: it has unmapped our regions
)

// maxPayloadBytes holds the largest note and the largest metadata.
const maxPayloadBytes = nixl.MaxNoteBytes

// errFrame: what follows on the connection cannot be trusted.
var errFrame = errors.New("corrupt frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends a frame to b.
func appendFrame(b []byte, k kind, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, checksum(k, payload))
	b = append(b, byte(k))
	return append(b, payload...)
}

func checksum(k kind, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{byte(k)}, castagnoli), castagnoli, payload)
}

// readFrame reads one frame into memory of its own. An end of the stream between two
// frames is io.EOF; a frame that is not sound is errFrame.
func readFrame(r io.Reader) (kind, []byte, error) {
	var h [headerBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	return readPayload(r, h)
}

func readPayload(r io.Reader, h [headerBytes]byte) (kind, []byte, error) {
	size, k := binary.LittleEndian.Uint32(h[:]), kind(h[8])
	if size > maxPayloadBytes {
		return 0, nil, fmt.Errorf("%w: %d bytes, want at most %d", errFrame, size, maxPayloadBytes)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	if got, want := checksum(k, payload), binary.LittleEndian.Uint32(h[4:]); got != want {
		return 0, nil, fmt.Errorf("%w: crc32c is %08x, want %08x", errFrame, got, want)
	}
	if k < hello || k > goodbye {
		return 0, nil, fmt.Errorf("%w: type %d", errFrame, k)
	}
	return k, payload, nil
}
