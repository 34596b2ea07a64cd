package gguf

import (
	"bytes"
	"math/bits"
	"strconv"
)

const (
	magic            = "GGUF"
	alignmentKey     = "general.alignment"
	defaultAlignment = 32
	maxKeyBytes      = 65535 // by the format
	maxKeys          = 1 << 16
	maxTensors       = 1 << 20
	maxDims          = 4
	maxArrayDepth    = 4 // arrays of arrays: legal, and unused by any model known

	minPairBytes   = 8 + 4 + 1     // key length, value type, value
	minTensorBytes = 8 + 4 + 4 + 8 // name length, dimensions, type, offset
)

// parser reads the head of a file in order.
type parser struct {
	cursor
	f        File
	headOnly bool // the tensor data is not part of data
}

func (p *parser) file() (*File, error) {
	p.f.data = p.data
	if err := p.header(); err != nil {
		return nil, err
	}
	tensors, err := p.count(minTensorBytes, "tensor count")
	if err != nil {
		return nil, err
	}
	pairs, err := p.count(minPairBytes, "metadata count")
	if err != nil {
		return nil, err
	}
	if tensors > maxTensors || pairs > maxKeys {
		return nil, fault(p.pos-16, "counts", "%d tensors and %d metadata pairs, want at most %d and %d", tensors, pairs, maxTensors, maxKeys)
	}
	if err := p.pairs(pairs); err != nil {
		return nil, err
	}
	if err := p.tensorInfos(tensors); err != nil {
		return nil, err
	}
	return &p.f, nil
}

func (p *parser) header() error {
	b, err := p.take(uint64(len(magic)), "magic")
	if err != nil {
		return err
	}
	if !bytes.Equal(b, []byte(magic)) {
		return fault(0, "magic", "is %q, want %q: not a GGUF file", b, magic)
	}
	v, err := p.uint32("version")
	switch {
	case err != nil:
		return err
	case v != 0 && v&0xffff == 0:
		return fault(4, "version", "is %d: a big-endian file, want little-endian", bits.ReverseBytes32(v))
	case v != 2 && v != 3:
		return fault(4, "version", "is %d, want 2 or 3", v)
	}
	p.f.version = v
	return nil
}

func (p *parser) pairs(n int) error {
	p.f.keys = make([]string, 0, n)
	p.f.metadata = make(map[string]value, n)
	for i := range n {
		at, field := p.pos, "metadata key "+strconv.Itoa(i)
		raw, err := p.text(maxKeyBytes, field)
		if err != nil {
			return err
		}
		key := string(raw)
		if _, twice := p.f.metadata[key]; twice {
			return fault(at, field, "%q occurs twice", key)
		}
		v, err := p.value("metadata " + strconv.Quote(key))
		if err != nil {
			return err
		}
		p.f.keys = append(p.f.keys, key)
		p.f.metadata[key] = v
	}
	return nil
}

// alignment is the alignment of the tensor data, by the metadata or the default.
func (p *parser) alignment() (uint64, error) {
	if !p.f.Has(alignmentKey) {
		return defaultAlignment, nil
	}
	a, err := p.f.Uint(alignmentKey)
	if err != nil {
		return 0, err
	}
	if a < 8 || a > 1<<20 || bits.OnesCount64(a) != 1 {
		return 0, fault(p.f.metadata[alignmentKey].offset, alignmentKey, "is %d, want a power of two from 8 to 1048576", a)
	}
	return a, nil
}

func (p *parser) tensorInfos(n int) error {
	align, err := p.alignment()
	if err != nil {
		return err
	}
	p.f.tensors = make([]Tensor, 0, n)
	p.f.positions = make(map[string]int, n)
	starts := make([]placement, 0, n)
	for i := range n {
		t, place, err := p.tensorInfo(i, align)
		if err != nil {
			return err
		}
		p.f.positions[t.Name] = i
		p.f.tensors = append(p.f.tensors, t)
		starts = append(starts, place)
	}
	if p.headOnly {
		return nil
	}
	return p.placeTensors(starts, align)
}

// placement is where a tensor says that its data lies, relative to the data section.
type placement struct {
	field     string
	at        int // byte offset of the tensor's offset field
	start     uint64
	sizeBytes uint64
}

func (p *parser) tensorInfo(i int, align uint64) (t Tensor, place placement, err error) {
	at, field := p.pos, "tensor "+strconv.Itoa(i)+" name"
	name, err := p.text(maxKeyBytes, field)
	if err != nil {
		return t, place, err
	}
	t.Name = string(name)
	if _, twice := p.f.positions[t.Name]; twice {
		return t, place, fault(at, field, "%q occurs twice", t.Name)
	}
	field = "tensor " + strconv.Quote(t.Name)
	if t.Dims, err = p.dims(field); err != nil {
		return t, place, err
	}
	at = p.pos
	number, err := p.uint32(field + " type")
	if err != nil {
		return t, place, err
	}
	t.Type = Type(number)
	size, err := t.sizeBytes(at, field)
	if err != nil {
		return t, place, err
	}
	place = placement{field: field + " offset", at: p.pos, sizeBytes: size}
	if place.start, err = p.uint64(place.field); err != nil {
		return t, place, err
	}
	if place.start%align != 0 {
		return t, place, fault(place.at, place.field, "is %d, want a multiple of the alignment %d", place.start, align)
	}
	return t, place, nil
}

func (p *parser) dims(field string) ([]uint64, error) {
	at := p.pos
	n, err := p.uint32(field + " dimensions")
	if err != nil {
		return nil, err
	}
	if n < 1 || n > maxDims {
		return nil, fault(at, field+" dimensions", "are %d, want 1 to %d", n, maxDims)
	}
	dims, product := make([]uint64, n), uint64(1)
	for i := range dims {
		name := field + " dimension " + strconv.Itoa(i)
		at = p.pos
		if dims[i], err = p.uint64(name); err != nil {
			return nil, err
		}
		hi, lo := bits.Mul64(product, dims[i])
		if dims[i] == 0 || hi != 0 || lo > 1<<50 {
			return nil, fault(at, name, "is %d, want at least 1 and at most 2^50 elements in all", dims[i])
		}
		product = lo
	}
	return dims, nil
}

// sizeBytes checks that rows are whole blocks of a known type; the type field lies at byte at.
func (t Tensor) sizeBytes(at int, field string) (uint64, error) {
	if !t.Type.known() {
		return 0, fault(at, field+" type", "is %d, which is no known type", uint32(t.Type))
	}
	if t.Dims[0]%t.Type.BlockElements() != 0 {
		return 0, fault(at, field, "has rows of %d elements, want a multiple of %d for %s", t.Dims[0], t.Type.BlockElements(), t.Type)
	}
	return t.Type.Bytes(t.Elements()), nil // at most 2^50 · 8: cannot overflow
}

func (p *parser) placeTensors(places []placement, align uint64) error {
	base := (uint64(p.pos) + align - 1) / align * align
	size := uint64(len(p.data))
	for i, place := range places {
		if base > size || place.start > size-base || place.sizeBytes > size-base-place.start {
			return fault(place.at, place.field, "data is %d bytes from byte %d + %d, the file has %d bytes: truncated or corrupt",
				place.sizeBytes, base, place.start, size)
		}
		from := base + place.start
		p.f.tensors[i].Data = p.data[from : from+place.sizeBytes : from+place.sizeBytes]
	}
	return nil
}
