package cpu

import (
	"sync"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/modelstore/modeltest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// slice is a block.Memory on the heap, poisoned: whoever reads a position that
// was not written gets NaN.
type slice struct {
	bytes  []byte
	layout block.Layout
	blocks int
}

func (s *slice) Bytes() []byte        { return s.bytes }
func (s *slice) Layout() block.Layout { return s.layout }
func (s *slice) Blocks() int          { return s.blocks }

func poisoned(l block.Layout, blocks int) *slice {
	s := &slice{make([]byte, blocks*l.BlockBytes()), l, blocks}
	for i := range s.bytes {
		s.bytes[i] = 0xff
	}
	return s
}

// realModel is loaded once for all tests.
var realModel = sync.OnceValues(func() (*Model, error) { return Open(realPath) })

var realPath string

func model(t testing.TB) *Model {
	t.Helper()
	realPath = modeltest.TestModel(t)
	m, err := realModel()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// bound is an executor of the real model over fresh poisoned memory.
func bound(t testing.TB, m *Model, o Options, blocks int) *Executor {
	t.Helper()
	o.Model = "test"
	e, err := m.Executor(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Bind(poisoned(e.Card().Layout, blocks)); err != nil {
		t.Fatal(err)
	}
	return e
}

func step(t testing.TB, e *Executor, segments ...engine.Segment) {
	t.Helper()
	if err := e.Step(t.Context(), &engine.Batch{Segments: segments}); err != nil {
		t.Fatal(err)
	}
}

// prompt is n tokens that look like nothing in particular.
func prompt(n, seed int) []sequence.Token {
	tokens := make([]sequence.Token, n)
	for i := range tokens {
		tokens[i] = sequence.Token((i*7919 + seed*104729 + 17) % 49152)
	}
	return tokens
}

// table is the blocks of a sequence of n tokens, the i-th of several.
func table(n, i int) []block.ID {
	blocks := make([]block.ID, (n+15)/16)
	for j := range blocks {
		blocks[j] = block.ID(i*len(blocks) + j)
	}
	return blocks
}
