package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Keys lists the metadata keys in file order.
func (f *File) Keys() []string { return slices.Clone(f.keys) }

// Has reports whether the metadata holds key.
func (f *File) Has(key string) bool {
	_, ok := f.metadata[key]
	return ok
}

func (f *File) lookup(key, want string) (value, error) {
	v, ok := f.metadata[key]
	if !ok {
		return value{}, fmt.Errorf("metadata %q is missing, want %s", key, want)
	}
	return v, nil
}

func mismatch(key string, v value, want string) error {
	return fmt.Errorf("metadata %q is %s, want %s", key, v, want)
}

// Uint returns a non-negative integer of any width. Like all getters it fails
// with an error that names the key, the type found and the type wanted.
func (f *File) Uint(key string) (uint64, error) {
	const want = "an unsigned integer"
	v, err := f.lookup(key, want)
	if err != nil {
		return 0, err
	}
	n, negative, ok := integer(v.kind, v.raw, 0)
	if !ok {
		return 0, mismatch(key, v, want)
	}
	if negative {
		return 0, fmt.Errorf("metadata %q is %d, want %s", key, int64(n), want)
	}
	return n, nil
}

// Float returns a float32 or float64.
func (f *File) Float(key string) (float64, error) {
	const want = "a float"
	v, err := f.lookup(key, want)
	if err != nil {
		return 0, err
	}
	switch v.kind {
	case kindFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw))), nil
	case kindFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw)), nil
	}
	return 0, mismatch(key, v, want)
}

// Bool returns a bool.
func (f *File) Bool(key string) (bool, error) {
	const want = "a bool"
	v, err := f.lookup(key, want)
	if err != nil {
		return false, err
	}
	if v.kind != kindBool {
		return false, mismatch(key, v, want)
	}
	return v.raw[0] == 1, nil
}

// String returns a string, as it is in the file: valid UTF-8 is not checked.
func (f *File) String(key string) (string, error) {
	const want = "a string"
	v, err := f.lookup(key, want)
	if err != nil {
		return "", err
	}
	if v.kind != kindString {
		return "", mismatch(key, v, want)
	}
	return string(v.raw[8:]), nil
}

func (f *File) array(key, want string, fits func(kind) bool) (value, error) {
	v, err := f.lookup(key, want)
	if err != nil {
		return value{}, err
	}
	if v.kind != kindArray || !fits(v.elem) {
		return value{}, mismatch(key, v, want)
	}
	return v, nil
}

// Strings decodes an array of strings. Each call decodes anew; the strings share
// one copy of the array's bytes.
func (f *File) Strings(key string) ([]string, error) {
	v, err := f.array(key, "an array of strings", func(k kind) bool { return k == kindString })
	if err != nil {
		return nil, err
	}
	all, out := string(v.raw), make([]string, v.count)
	for i, pos := 0, 0; i < v.count; i++ {
		n := int(binary.LittleEndian.Uint64(v.raw[pos:])) // checked by the parser
		out[i] = all[pos+8 : pos+8+n]
		pos += 8 + n
	}
	return out, nil
}

func isInteger(k kind) bool {
	return k <= kindInt32 || k == kindUint64 || k == kindInt64
}

// Uints decodes an array of non-negative integers of any width.
func (f *File) Uints(key string) ([]uint64, error) {
	v, err := f.array(key, "an array of unsigned integers", isInteger)
	if err != nil {
		return nil, err
	}
	out := make([]uint64, v.count)
	for i := range out {
		n, negative, _ := integer(v.elem, v.raw, i)
		if negative {
			return nil, fmt.Errorf("metadata %q: element %d is %d, want an unsigned integer", key, i, int64(n))
		}
		out[i] = n
	}
	return out, nil
}

// Ints decodes an array of integers of any width; a uint64 above the range of
// int64 is an error.
func (f *File) Ints(key string) ([]int64, error) {
	v, err := f.array(key, "an array of integers", isInteger)
	if err != nil {
		return nil, err
	}
	out := make([]int64, v.count)
	for i := range out {
		n, negative, _ := integer(v.elem, v.raw, i)
		if !negative && n > math.MaxInt64 {
			return nil, fmt.Errorf("metadata %q: element %d is %d, want at most %d", key, i, n, int64(math.MaxInt64))
		}
		out[i] = int64(n)
	}
	return out, nil
}

// Floats decodes an array of float32 or float64.
func (f *File) Floats(key string) ([]float64, error) {
	v, err := f.array(key, "an array of floats", func(k kind) bool { return k == kindFloat32 || k == kindFloat64 })
	if err != nil {
		return nil, err
	}
	out := make([]float64, v.count)
	for i := range out {
		if v.elem == kindFloat32 {
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw[4*i:])))
		} else {
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(v.raw[8*i:]))
		}
	}
	return out, nil
}
