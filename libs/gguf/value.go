package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// kind is the type of a metadata value, numbered as in the format.
type kind uint32

const (
	kindUint8 kind = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
)

var kindNames = [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64"}
var kindBytes = [...]uint64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

func (k kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// value is one metadata value, not yet decoded: an array of a hundred thousand
// strings costs nothing until it is asked for.
type value struct {
	kind   kind
	elem   kind // of an array
	count  int  // of an array
	offset int  // of raw within the file
	raw    []byte
}

func (v value) String() string {
	if v.kind == kindArray {
		return "array of " + v.elem.String()
	}
	return v.kind.String()
}

// value reads a kind and a value of it.
func (p *parser) value(field string) (value, error) {
	at := p.pos
	n, err := p.uint32(field + " type")
	if err != nil {
		return value{}, err
	}
	v := value{kind: kind(n), offset: p.pos}
	if v.kind == kindArray {
		return p.array(field)
	}
	if int64(n) >= int64(len(kindNames)) {
		return value{}, fault(at, field+" type", "is %d, want 0 to %d", n, len(kindNames)-1)
	}
	if err := p.skip(v.kind, field); err != nil {
		return value{}, err
	}
	v.raw = p.data[v.offset:p.pos:p.pos]
	return v, nil
}

// skip passes one value that is no array, and checks it.
func (p *parser) skip(k kind, field string) error {
	if k == kindString {
		_, err := p.text(math.MaxUint64, field)
		return err
	}
	at := p.pos
	b, err := p.take(kindBytes[k], field)
	if err == nil && k == kindBool && b[0] > 1 {
		return fault(at, field, "is %d, want 0 or 1 for a bool", b[0])
	}
	return err
}

func (p *parser) array(field string) (value, error) {
	v, err := p.arrayHead(field)
	if err != nil {
		return value{}, err
	}
	v.offset = p.pos
	if err := p.skipElements(v, 1, field); err != nil {
		return value{}, err
	}
	v.raw = p.data[v.offset:p.pos:p.pos]
	return v, nil
}

func (p *parser) arrayHead(field string) (value, error) {
	at := p.pos
	n, err := p.uint32(field + " element type")
	if err != nil {
		return value{}, err
	}
	if int64(n) >= int64(len(kindNames)) {
		return value{}, fault(at, field+" element type", "is %d, want 0 to %d", n, len(kindNames)-1)
	}
	v := value{kind: kindArray, elem: kind(n)}
	smallest := kindBytes[v.elem]
	switch v.elem {
	case kindString:
		smallest = 8
	case kindArray:
		smallest = 4 + 8
	}
	v.count, err = p.count(smallest, field+" length")
	return v, err
}

func (p *parser) skipElements(v value, depth int, field string) error {
	if size := kindBytes[v.elem]; size > 0 && v.elem != kindBool {
		_, err := p.take(uint64(v.count)*size, field)
		return err
	}
	if depth >= maxArrayDepth && v.elem == kindArray {
		return fault(p.pos, field, "nests arrays deeper than %d", maxArrayDepth)
	}
	for range v.count {
		var err error
		if v.elem == kindArray {
			var inner value
			if inner, err = p.arrayHead(field); err == nil {
				err = p.skipElements(inner, depth+1, field)
			}
		} else {
			err = p.skip(v.elem, field)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// integer decodes element i of a run of integers as two's complement in 64
// bits; ok is false for kinds that are no integers.
func integer(k kind, raw []byte, i int) (bits uint64, negative, ok bool) {
	var n int64
	switch k {
	case kindUint8:
		return uint64(raw[i]), false, true
	case kindUint16:
		return uint64(binary.LittleEndian.Uint16(raw[2*i:])), false, true
	case kindUint32:
		return uint64(binary.LittleEndian.Uint32(raw[4*i:])), false, true
	case kindUint64:
		return binary.LittleEndian.Uint64(raw[8*i:]), false, true
	case kindInt8:
		n = int64(int8(raw[i]))
	case kindInt16:
		n = int64(int16(binary.LittleEndian.Uint16(raw[2*i:])))
	case kindInt32:
		n = int64(int32(binary.LittleEndian.Uint32(raw[4*i:])))
	case kindInt64:
		n = int64(binary.LittleEndian.Uint64(raw[8*i:]))
	default:
		return 0, false, false
	}
	return uint64(n), n < 0, true
}
