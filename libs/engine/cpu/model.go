// Package cpu computes transformers of the Llama architecture on a CPU: GGUF
// weights (Q4_1, Q8_0, F32), arithmetic in f32, a paged KV cache in a block.Memory.
//
// It is exact: a row's result depends on nothing but its own tokens, because every
// reduction has one order (see package kernel) whatever the batch, the cut of
// the prompt, the place of the blocks, the number of threads or the instruction set.
//
// A Model holds the weights once per process; its executors share them. The
// package samples nothing, schedules nothing and knows no text. Goroutines start
// within LoadModel and Step and have ended when these return.
package cpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/gguf"
)

// Model is the packed weights of one file. It is immutable and may be used by
// many executors at once.
type Model struct {
	shape   Shape
	digest  string
	weights weights

	once   sync.Once
	memory *arena
}

// Open loads the model file at path; nothing of the file stays open or mapped.
func Open(path string) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := LoadModel(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("model file %s: %w", path, err), f.Close())
	}
	if err := f.Close(); err != nil {
		return nil, errors.Join(fmt.Errorf("close model file: %w", err), m.Close())
	}
	return m, nil
}

// LoadModel checks and packs the weights of a file, which may be closed
// afterwards. The error names the metadata key or the tensor that does not fit.
func LoadModel(f *gguf.File) (*Model, error) {
	shape, err := readShape(f)
	if err != nil {
		return nil, err
	}
	m := &Model{}
	l := loader{file: f, shape: shape}
	l.load(&m.weights)
	if l.err != nil {
		return nil, l.err
	}
	m.shape = l.shape
	digest := make(chan string, 1)
	go func() { digest <- digestTensors(l.used) }()
	m.memory, err = newArena(l.packedBytes())
	if err == nil {
		err = l.pack(m.memory.bytes)
	}
	m.digest = <-digest
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pack weights: %w", err), m.Close())
	}
	return m, nil
}

// Shape is the size of the model's parts.
func (m *Model) Shape() Shape { return m.shape }

// Digest is a hexadecimal digest of the names, types, shapes and data of all tensors.
func (m *Model) Digest() string { return m.digest }

// WeightBytes is the memory that the packed matrices take.
func (m *Model) WeightBytes() int { return len(m.memory.bytes) }

// Close frees the weights. No executor of the model may run then or later.
func (m *Model) Close() error {
	var err error
	m.once.Do(func() {
		if m.memory != nil {
			m.weights = weights{}
			err = m.memory.close()
		}
	})
	return err
}
