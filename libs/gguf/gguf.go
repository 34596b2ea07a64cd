// Package gguf reads and writes GGUF model files: typed metadata and tensors.
//
// A file is mapped read-only and treated as hostile: every length and offset is
// checked against the bytes that exist before anything is allocated or read, and
// an error names the byte offset and the field. The package knows how large a
// tensor of each type is, but computes with none; that is the engine's work.
//
// A File is immutable after Open and safe for concurrent use until Close. The
// package starts no goroutine.
package gguf

import (
	"fmt"
	"slices"
)

// File is an open GGUF file.
type File struct {
	version   uint32
	data      []byte
	unmap     func() error
	keys      []string
	metadata  map[string]value
	tensors   []Tensor
	positions map[string]int
}

// Tensor is a named array of a model. Its Data aliases the file's mapping: it is
// read-only and ends with File.Close.
type Tensor struct {
	Name string
	Type Type
	// Dims is in GGUF order: Dims[0] is the length of a row, whose elements are
	// contiguous; 1 to 4 dimensions, each at least 1.
	Dims []uint64
	// Data is exactly Type.Bytes(Elements()) bytes.
	Data []byte
}

// Elements is the number of elements: the product of Dims.
func (t Tensor) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Open maps the file at path and parses its head. The mapping is shared with
// other processes that open the same file. A file that is truncated while mapped
// faults on access, as with any mapping.
func Open(path string) (*File, error) {
	data, unmap, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("open model file: %w", err)
	}
	f, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("model file %s: %w", path, joinUnmap(err, unmap))
	}
	f.unmap = unmap
	return f, nil
}

func joinUnmap(err error, unmap func() error) error {
	if uerr := unmap(); uerr != nil {
		return fmt.Errorf("%w (and unmapping it: %w)", err, uerr)
	}
	return err
}

// Parse reads a file that is in memory already. The File keeps data; the caller
// must not change it.
func Parse(data []byte) (*File, error) {
	p := parser{cursor: cursor{data: data}}
	return p.file()
}

// Close ends the mapping. No Data of a tensor may be used afterwards; strings stay valid.
func (f *File) Close() error {
	unmap := f.unmap
	f.unmap, f.data, f.tensors, f.metadata, f.keys, f.positions = nil, nil, nil, nil, nil, nil
	if unmap == nil {
		return nil
	}
	return unmap()
}

// Version is the version of the format, 2 or 3.
func (f *File) Version() uint32 { return f.version }

// Bytes is the whole file, for digests; it aliases the mapping.
func (f *File) Bytes() []byte { return f.data }

// Tensor returns the tensor of that name; the error names it.
func (f *File) Tensor(name string) (Tensor, error) {
	i, ok := f.positions[name]
	if !ok {
		return Tensor{}, fmt.Errorf("tensor %q is not in the model file", name)
	}
	return f.tensors[i], nil
}

// Tensors lists all tensors in file order.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }
