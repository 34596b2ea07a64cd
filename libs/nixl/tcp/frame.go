package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// The kinds of frames that only this transport has; see the package comment.
const (
	kindJoin wire.Kind = wire.Own + iota
	kindWrite
	kindRead
	kindData
	kindAnswer
	kindCredit
	kindBeat
)

// Bounds of a frame on a data connection.
const (
	maxBytes     = 1 << 20  // of blocks
	maxRuns      = 1000     // one writev takes 1,024 pieces
	maxHead      = 16 << 10 // of the payload that names the runs
	maxRunBytes  = 5 + 10 + 2*10
	maxTextBytes = 256

	requestBytes = 24
	dataBytes    = 16
	answerBytes  = 9
	trailerBytes = 16
)

// flags of requests and of data.
const (
	flagVerified = 1 << iota // the trailer holds the hash
	flagNamed                // each run carries its block's generation
)

// requestHead is the fixed part of a write or a read.
type requestHead struct {
	transfer, grant uint64
	region          nixl.RegionID
	flags           byte
	runs, bytes     int
}

// put fills in b, which has room for requestBytes.
func (r requestHead) put(b []byte) {
	binary.LittleEndian.PutUint64(b, r.transfer)
	binary.LittleEndian.PutUint64(b[8:], r.grant)
	b[16], b[17] = byte(r.region), r.flags
	binary.LittleEndian.PutUint16(b[18:], uint16(r.runs))
	binary.LittleEndian.PutUint32(b[20:], uint32(r.bytes))
}

// parseRequest returns the runs as well. What it returns without an error can be skipped
// on the connection, whatever the runs say.
func parseRequest(b []byte) (r requestHead, runs []byte, err error) {
	if len(b) < requestBytes {
		return r, nil, fmt.Errorf("%w: a request of %d bytes", wire.ErrFrame, len(b))
	}
	r = requestHead{
		transfer: binary.LittleEndian.Uint64(b), grant: binary.LittleEndian.Uint64(b[8:]),
		region: nixl.RegionID(b[16]), flags: b[17],
		runs: int(binary.LittleEndian.Uint16(b[18:])),
	}
	bytes := binary.LittleEndian.Uint32(b[20:])
	if bytes == 0 || bytes > maxBytes {
		return r, nil, fmt.Errorf("%w: a request for %d bytes, want 1 to %d", wire.ErrFrame, bytes, maxBytes)
	}
	r.bytes = int(bytes)
	return r, b[requestBytes:], nil
}

// run is a part of one block.
type run struct {
	ref           block.Ref
	offset, bytes int
}

func (r run) append(b []byte, named bool) []byte {
	b = binary.AppendUvarint(b, uint64(r.ref.ID))
	if named {
		b = binary.AppendUvarint(b, uint64(r.ref.Generation))
	}
	b = binary.AppendUvarint(b, uint64(r.offset))
	return binary.AppendUvarint(b, uint64(r.bytes))
}

var errRuns = fmt.Errorf("runs that cannot be read: %w", nixl.ErrDescriptor)

// nextRun reads a run and returns what follows it. The run lies within a block of that
// many bytes.
func nextRun(b []byte, named bool, blockBytes int) (r run, rest []byte, err error) {
	id, b, ok := number(b)
	if !ok || id > math.MaxInt32 {
		return r, nil, errRuns
	}
	generation := uint64(0)
	if named {
		if generation, b, ok = number(b); !ok {
			return r, nil, errRuns
		}
	}
	offset, b, ok := number(b)
	if !ok {
		return r, nil, errRuns
	}
	bytes, b, ok := number(b)
	if !ok {
		return r, nil, errRuns
	}
	if size := uint64(blockBytes); bytes == 0 || offset >= size || bytes > size-offset {
		return r, nil, fmt.Errorf("offset %d, %d bytes, is outside a block of %d bytes: %w", offset, bytes, size, nixl.ErrDescriptor)
	}
	return run{block.Ref{ID: block.ID(id), Generation: block.Generation(generation)}, int(offset), int(bytes)}, b, nil
}

func number(b []byte) (uint64, []byte, bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

// code is an error that keeps its identity on the way.
type code byte

const (
	codeDone code = iota
	codeGone
	codeNotGranted
	codeDescriptor
	codeChecksum
	codeFenced
)

var codes = []struct {
	code code
	err  error
}{
	{codeNotGranted, nixl.ErrNotGranted},
	{codeDescriptor, nixl.ErrDescriptor},
	{codeChecksum, nixl.ErrChecksum},
	{codeFenced, nixl.ErrFenced},
}

func codeOf(err error) code {
	if err == nil {
		return codeDone
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return codeGone
}

// err is nil for codeDone.
func (c code) err(text []byte) error {
	if c == codeDone {
		return nil
	}
	known := nixl.ErrGone
	for _, k := range codes {
		if k.code == c {
			known = k.err
		}
	}
	return fmt.Errorf("%w: the peer says: %q", known, text[:min(len(text), maxTextBytes)])
}

func text(err error) []byte {
	if err == nil {
		return nil
	}
	t := err.Error()
	return []byte(t[:min(len(t), maxTextBytes)])
}

// appendAnswer appends the frame that answers a request.
func appendAnswer(b []byte, transfer uint64, err error) []byte {
	start := len(b)
	b = append(b, make([]byte, wire.HeaderBytes)...)
	b = binary.LittleEndian.AppendUint64(b, transfer)
	b = append(b, byte(codeOf(err)))
	b = append(b, text(err)...)
	wire.Seal(b[start:], kindAnswer)
	return b
}

func parseAnswer(b []byte) (transfer uint64, err, bad error) {
	if len(b) < answerBytes {
		return 0, nil, fmt.Errorf("%w: an answer of %d bytes", wire.ErrFrame, len(b))
	}
	return binary.LittleEndian.Uint64(b), code(b[8]).err(b[answerBytes:]), nil
}

// appendData appends the frame that goes before the bytes that were read.
func appendData(b []byte, transfer uint64, bytes int, flags byte) []byte {
	start := len(b)
	b = append(b, make([]byte, wire.HeaderBytes)...)
	b = binary.LittleEndian.AppendUint64(b, transfer)
	b = binary.LittleEndian.AppendUint32(b, uint32(bytes))
	b = append(b, flags, 0, 0, 0)
	wire.Seal(b[start:], kindData)
	return b
}

func parseData(b []byte) (transfer uint64, bytes int, flags byte, err error) {
	if len(b) != dataBytes {
		return 0, 0, 0, fmt.Errorf("%w: data of %d bytes", wire.ErrFrame, len(b))
	}
	n := binary.LittleEndian.Uint32(b[8:])
	if n == 0 || n > maxBytes {
		return 0, 0, 0, fmt.Errorf("%w: %d bytes of data, want 1 to %d", wire.ErrFrame, n, maxBytes)
	}
	return binary.LittleEndian.Uint64(b), int(n), b[12], nil
}

// appendGoodbye appends the last frame of a side.
func appendGoodbye(b []byte, c code, why error) []byte {
	return wire.Append(b, wire.Goodbye, append([]byte{byte(c)}, text(why)...))
}

// parseGoodbye returns why the peer ends; it is never nil.
func parseGoodbye(b []byte) error {
	if len(b) == 0 || code(b[0]) == codeDone {
		return codeGone.err(nil)
	}
	return code(b[0]).err(b[1:])
}
