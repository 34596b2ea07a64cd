// Package image keeps what was built in a file: slices of numbers, byte for byte as they are
// in memory, so that reading one back is little more than reading the file.
//
// An image is for the machine that wrote it and for one version of the program; Read refuses
// any other, and one that was damaged. It is no exchange format, and trusted like the cache
// folder that it lies in. The package starts no goroutine.
package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/zeebo/xxh3"
)

const (
	magic       = "swyimage"
	headerBytes = 32 // magic, version, order of bytes, checksum
	align       = 8
)

// order reads differently on a machine with another order of bytes.
const order = 0x0102030405060708

// Writer collects slices.
type Writer struct{ buf []byte }

// NewWriter begins an image of a version of its content.
func NewWriter(version uint64) *Writer {
	w := &Writer{buf: make([]byte, headerBytes, 1<<20)}
	copy(w.buf, magic)
	binary.NativeEndian.PutUint64(w.buf[8:], version)
	binary.NativeEndian.PutUint64(w.buf[16:], order)
	return w
}

// Bytes ends the image and returns it.
func (w *Writer) Bytes() []byte {
	binary.NativeEndian.PutUint64(w.buf[24:], xxh3.Hash(w.buf[headerBytes:]))
	return w.buf
}

// Put appends a slice. T has a fixed size and no pointers.
func Put[T any](w *Writer, s []T) {
	var zero T
	w.buf = binary.NativeEndian.AppendUint64(w.buf, uint64(len(s)))
	if n := len(s) * int(unsafe.Sizeof(zero)); n > 0 {
		w.buf = append(w.buf, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), n)...)
	}
	for len(w.buf)%align != 0 {
		w.buf = append(w.buf, 0)
	}
}

// PutOne appends a value.
func PutOne[T any](w *Writer, v T) { Put(w, []T{v}) }

// PutString appends a string.
func PutString(w *Writer, s string) { Put(w, []byte(s)) }

// Reader gives the slices back, in the order in which they were put.
type Reader struct {
	rest []byte
	err  error
}

// Read checks an image, which must not change afterwards: slices alias it. Its start is
// aligned like an allocation's.
func Read(data []byte, version uint64) (*Reader, error) {
	switch {
	case len(data) < headerBytes || string(data[:8]) != magic:
		return nil, errors.New("no image")
	case binary.NativeEndian.Uint64(data[16:]) != order:
		return nil, errors.New("image of a machine with another order of bytes")
	case binary.NativeEndian.Uint64(data[8:]) != version:
		return nil, fmt.Errorf("image of version %d, want %d", binary.NativeEndian.Uint64(data[8:]), version)
	case binary.NativeEndian.Uint64(data[24:]) != xxh3.Hash(data[headerBytes:]):
		return nil, errors.New("image is damaged: wrong checksum")
	}
	return &Reader{rest: data[headerBytes:]}, nil
}

// Err is what went wrong, if anything did; slices are empty from then on.
func (r *Reader) Err() error { return r.err }

// Get returns the next slice.
func Get[T any](r *Reader) []T {
	var zero T
	if r.err != nil || len(r.rest) < align {
		r.fail()
		return nil
	}
	n, size := binary.NativeEndian.Uint64(r.rest), uint64(unsafe.Sizeof(zero))
	r.rest = r.rest[align:]
	if n > uint64(len(r.rest))/max(size, 1) {
		r.fail()
		return nil
	}
	data := r.rest[:n*size]
	r.rest = r.rest[min((n*size+align-1)/align*align, uint64(len(r.rest))):]
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), n)
}

// GetOne returns the next value, which must be one.
func GetOne[T any](r *Reader) (v T) {
	s := Get[T](r)
	if len(s) != 1 {
		r.fail()
		return v
	}
	return s[0]
}

// GetString returns the next string.
func GetString(r *Reader) string {
	b := Get[byte](r)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (r *Reader) fail() {
	if r.err == nil {
		r.err = errors.New("image ends too early, or is of another form")
	}
	r.rest = nil
}
