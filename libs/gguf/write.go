package gguf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// Pair is one metadata entry for Write. Value is a bool, a string, a sized
// integer or float (uint32, float64, …), or a slice of one of these.
type Pair struct {
	Key   string
	Value any
}

// Write writes a version 3 file: the metadata in the given order, then the
// tensors. The alignment is that of a "general.alignment" pair (uint32), or 32.
// Data of a tensor must have the size that its type and dimensions ask for.
func Write(w io.Writer, metadata []Pair, tensors []Tensor) error {
	head, align, err := encodeHead(metadata, tensors)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	out.Write(pad(head, align)) // a bufio.Writer keeps its first error until Flush
	for _, t := range tensors {
		out.Write(t.Data)
		out.Write(make([]byte, gap(uint64(len(t.Data)), align)))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write model file: %w", err)
	}
	return nil
}

func gap(n, align uint64) uint64 { return (align - n%align) % align }

func pad(b []byte, align uint64) []byte {
	return append(b, make([]byte, gap(uint64(len(b)), align))...)
}

func encodeHead(metadata []Pair, tensors []Tensor) (head []byte, align uint64, err error) {
	e := encoder{align: defaultAlignment}
	e.b.WriteString(magic)
	e.put(uint32(3))
	e.put(uint64(len(tensors)))
	e.put(uint64(len(metadata)))
	for _, m := range metadata {
		if err := e.pair(m); err != nil {
			return nil, 0, fmt.Errorf("metadata %q: %w", m.Key, err)
		}
	}
	offset := uint64(0)
	for _, t := range tensors {
		if err := e.tensor(t, offset); err != nil {
			return nil, 0, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		offset += uint64(len(t.Data)) + gap(uint64(len(t.Data)), e.align)
	}
	// What was written must be what Open accepts: one place holds the rules.
	var all parser
	all.data = e.b.Bytes()
	if err := all.checkHead(); err != nil {
		return nil, 0, err
	}
	return e.b.Bytes(), e.align, nil
}

// checkHead parses a head whose tensor data is elsewhere.
func (p *parser) checkHead() error {
	p.headOnly = true
	_, err := p.file()
	return err
}

type encoder struct {
	b     bytes.Buffer
	align uint64
}

// put writes a fixed-size value or a slice of them; a bytes.Buffer takes all.
func (e *encoder) put(v any) {
	if err := binary.Write(&e.b, binary.LittleEndian, v); err != nil {
		panic("gguf: put of a type without a fixed size: " + err.Error()) // a slip in this file
	}
}

func (e *encoder) text(s string) {
	e.put(uint64(len(s)))
	e.b.WriteString(s)
}

func (e *encoder) pair(m Pair) error {
	e.text(m.Key)
	if m.Key == alignmentKey {
		a, ok := m.Value.(uint32)
		if !ok || a == 0 {
			return fmt.Errorf("is %T %v, want a uint32 above 0", m.Value, m.Value)
		}
		e.align = uint64(a)
	}
	k, elems, err := kindOf(m.Value)
	if err != nil {
		return err
	}
	if elems >= 0 {
		e.put(uint32(kindArray))
	}
	e.put(uint32(k))
	if elems >= 0 {
		e.put(uint64(elems))
	}
	switch v := m.Value.(type) {
	case string:
		e.text(v)
	case []string:
		for _, s := range v {
			e.text(s)
		}
	default:
		e.put(v)
	}
	return nil
}

// kindOf returns the kind of a value, or of a slice's elements and their number; elems is -1 for a scalar.
func kindOf(v any) (k kind, elems int, err error) {
	switch v := v.(type) {
	case bool:
		return kindBool, -1, nil
	case string:
		return kindString, -1, nil
	case uint8:
		return kindUint8, -1, nil
	case int8:
		return kindInt8, -1, nil
	case uint16:
		return kindUint16, -1, nil
	case int16:
		return kindInt16, -1, nil
	case uint32:
		return kindUint32, -1, nil
	case int32:
		return kindInt32, -1, nil
	case uint64:
		return kindUint64, -1, nil
	case int64:
		return kindInt64, -1, nil
	case float32:
		return kindFloat32, -1, nil
	case float64:
		return kindFloat64, -1, nil
	case []bool:
		return kindBool, len(v), nil
	case []string:
		return kindString, len(v), nil
	case []uint8:
		return kindUint8, len(v), nil
	case []int8:
		return kindInt8, len(v), nil
	case []uint16:
		return kindUint16, len(v), nil
	case []int16:
		return kindInt16, len(v), nil
	case []uint32:
		return kindUint32, len(v), nil
	case []int32:
		return kindInt32, len(v), nil
	case []uint64:
		return kindUint64, len(v), nil
	case []int64:
		return kindInt64, len(v), nil
	case []float32:
		return kindFloat32, len(v), nil
	case []float64:
		return kindFloat64, len(v), nil
	}
	return 0, 0, fmt.Errorf("has type %T, which the format cannot hold", v)
}

func (e *encoder) tensor(t Tensor, offset uint64) error {
	if len(t.Dims) == 0 || len(t.Dims) > maxDims {
		return fmt.Errorf("has %d dimensions, want 1 to %d", len(t.Dims), maxDims)
	}
	if want := t.Type.Bytes(t.Elements()); !t.Type.known() || uint64(len(t.Data)) != want {
		return fmt.Errorf("has %d bytes of data, want %d for %s %v", len(t.Data), want, t.Type, t.Dims)
	}
	e.text(t.Name)
	e.put(uint32(len(t.Dims)))
	e.put(t.Dims)
	e.put(uint32(t.Type))
	e.put(offset)
	return nil
}
