package gguf

import (
	"encoding/binary"
	"fmt"
)

// cursor reads little-endian fields and never passes the end of its data.
type cursor struct {
	data []byte
	pos  int
}

func (c *cursor) remaining() uint64 { return uint64(len(c.data) - c.pos) }

// fault is an error at the field that starts at offset.
func fault(offset int, field, format string, args ...any) error {
	return fmt.Errorf("byte %d: %s: %s", offset, field, fmt.Sprintf(format, args...))
}

// take returns the next n bytes, which belong to field.
func (c *cursor) take(n uint64, field string) ([]byte, error) {
	if n > c.remaining() {
		return nil, fault(c.pos, field, "needs %d bytes, the file has %d left", n, c.remaining())
	}
	b := c.data[c.pos : c.pos+int(n) : c.pos+int(n)]
	c.pos += int(n)
	return b, nil
}

func (c *cursor) uint32(field string) (uint32, error) {
	b, err := c.take(4, field)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) uint64(field string) (uint64, error) {
	b, err := c.take(8, field)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// count reads a number of items of at least itemBytes each, so that whatever the
// caller allocates for them is proportional to the file.
func (c *cursor) count(itemBytes uint64, field string) (int, error) {
	at := c.pos
	n, err := c.uint64(field)
	if err != nil {
		return 0, err
	}
	if n > c.remaining()/itemBytes {
		return 0, fault(at, field, "%d items of at least %d bytes do not fit into the %d bytes left", n, itemBytes, c.remaining())
	}
	return int(n), nil
}

// text reads a length-prefixed string of at most limit bytes; the result aliases the data.
func (c *cursor) text(limit uint64, field string) ([]byte, error) {
	at := c.pos
	n, err := c.uint64(field)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fault(at, field, "length %d exceeds the limit of %d bytes", n, limit)
	}
	return c.take(n, field)
}
