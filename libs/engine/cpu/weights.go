package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/kernel"
	"github.com/switchyard-llm/switchyard/libs/gguf"
)

// layer holds the weights of one transformer block.
type layer struct {
	attentionNorm, feedNorm  []float32
	query, key, value, mixed *kernel.Matrix
	gate, up, down           *kernel.Matrix
}

// weights is all that a forward pass reads.
type weights struct {
	embedding *kernel.Matrix
	output    *kernel.Matrix // the embedding itself when they are tied
	norm      []float32
	// frequencyFactors divide the rotation frequencies, one per pair; nil for none.
	frequencyFactors []float32
	layers           []layer
}

// slot is a matrix to be packed and the place that takes it.
type slot struct {
	tensor     gguf.Tensor
	kind       kernel.Kind
	rows, cols int
	to         []**kernel.Matrix
	bytes      []byte
}

// loader finds and checks tensors; packing comes last, when all sizes are known
// to fit the file. It keeps the first error.
type loader struct {
	file  *gguf.File
	shape Shape
	slots []slot
	used  []gguf.Tensor
	err   error
}

// load checks every tensor before it allocates for any.
func (l *loader) load(w *weights) {
	s := &l.shape
	if l.err = l.vocabulary(); l.err != nil {
		return
	}
	w.layers = make([]layer, s.Layers)
	w.norm = l.vector("output_norm.weight", s.Width)
	if l.has("output.weight") {
		l.matrix("token_embd.weight", s.VocabTokens, s.Width, &w.embedding)
		l.matrix("output.weight", s.VocabTokens, s.Width, &w.output)
	} else {
		l.matrix("token_embd.weight", s.VocabTokens, s.Width, &w.embedding, &w.output)
	}
	if l.has("rope_freqs.weight") {
		w.frequencyFactors = l.factors("rope_freqs.weight", s.HeadDim/2)
	}
	for i := range w.layers {
		l.layer(i, &w.layers[i])
	}
	if l.err == nil {
		l.err = l.unknownTensors()
	}
}

func (l *loader) layer(i int, y *layer) {
	s, prefix := &l.shape, fmt.Sprintf("blk.%d.", i)
	heads, kvHeads := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	y.attentionNorm = l.vector(prefix+"attn_norm.weight", s.Width)
	y.feedNorm = l.vector(prefix+"ffn_norm.weight", s.Width)
	l.matrix(prefix+"attn_q.weight", heads, s.Width, &y.query)
	l.matrix(prefix+"attn_k.weight", kvHeads, s.Width, &y.key)
	l.matrix(prefix+"attn_v.weight", kvHeads, s.Width, &y.value)
	l.matrix(prefix+"attn_output.weight", s.Width, heads, &y.mixed)
	l.matrix(prefix+"ffn_gate.weight", s.Hidden, s.Width, &y.gate)
	l.matrix(prefix+"ffn_up.weight", s.Hidden, s.Width, &y.up)
	l.matrix(prefix+"ffn_down.weight", s.Width, s.Hidden, &y.down)
}

// vocabulary takes the number of tokens from the embedding: the metadata may omit it.
func (l *loader) vocabulary() error {
	t, err := l.file.Tensor("token_embd.weight")
	if err != nil {
		return err
	}
	if len(t.Dims) != 2 || t.Dims[1] < 1 || t.Dims[1] > maxVocab {
		return fmt.Errorf("tensor %q has dimensions %v, want [%d, 1 to %d]", t.Name, t.Dims, l.shape.Width, maxVocab)
	}
	l.shape.VocabTokens = int(t.Dims[1])
	return nil
}

func (l *loader) has(name string) bool {
	_, err := l.file.Tensor(name)
	return err == nil
}

// tensor finds a tensor of the dimensions given; ok is false after any error.
func (l *loader) tensor(name string, dims ...uint64) (t gguf.Tensor, ok bool) {
	if l.err != nil {
		return gguf.Tensor{}, false
	}
	t, err := l.file.Tensor(name)
	if err != nil {
		l.err = err
		return gguf.Tensor{}, false
	}
	if !slices.Equal(t.Dims, dims) {
		l.err = fmt.Errorf("tensor %q has dimensions %v, want %v", name, t.Dims, dims)
		return gguf.Tensor{}, false
	}
	l.used = append(l.used, t)
	return t, true
}

func (l *loader) vector(name string, n int) []float32 {
	t, ok := l.tensor(name, uint64(n))
	if !ok {
		return nil
	}
	if t.Type != gguf.TypeF32 {
		l.err = fmt.Errorf("tensor %q has type %s, want F32", name, t.Type)
		return nil
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return v
}

// factors is a vector of divisors, which cannot be zero or negative.
func (l *loader) factors(name string, n int) []float32 {
	v := l.vector(name, n)
	for i, f := range v {
		if l.err == nil && !(f > 0 && f < 1e9) {
			l.err = fmt.Errorf("tensor %q: element %d is %g, want above 0 and below 1e9", name, i, f)
		}
	}
	return v
}

func (l *loader) matrix(name string, rows, cols int, to ...**kernel.Matrix) {
	t, ok := l.tensor(name, uint64(cols), uint64(rows))
	if !ok {
		return
	}
	var kind kernel.Kind
	switch t.Type {
	case gguf.TypeF32:
		kind = kernel.F32
	case gguf.TypeQ4_1:
		kind = kernel.Q4
	case gguf.TypeQ8_0:
		kind = kernel.Q8
	default:
		l.err = fmt.Errorf("tensor %q has type %s, want Q4_1, Q8_0 or F32", name, t.Type)
		return
	}
	if cols%32 != 0 {
		l.err = fmt.Errorf("tensor %q has rows of %d, want a multiple of 32", name, cols)
		return
	}
	l.slots = append(l.slots, slot{tensor: t, kind: kind, rows: rows, cols: cols, to: to})
}

// unknownTensors refuses a file with more than this architecture has: a bias,
// say, would be left out of the computation without a word.
func (l *loader) unknownTensors() error {
	known := make(map[string]bool, len(l.used))
	for _, t := range l.used {
		known[t.Name] = true
	}
	for _, t := range l.file.Tensors() {
		if !known[t.Name] {
			return fmt.Errorf("tensor %q is not part of a llama model of %d layers as this engine knows it", t.Name, l.shape.Layers)
		}
	}
	return nil
}

// pack lays out all matrices in memory, on all cores; it ends when they are done.
func (l *loader) pack(memory []byte) error {
	for i := range l.slots {
		s := &l.slots[i]
		n := kernel.PackedBytes(s.kind, s.rows, s.cols)
		s.bytes, memory = memory[:n:n], memory[roundUp(n, packedAlignment):]
	}
	var next atomic.Int64
	var group sync.WaitGroup
	failures := make([]error, len(l.slots))
	for range min(runtime.GOMAXPROCS(0), len(l.slots)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(l.slots); i = int(next.Add(1)) - 1 {
				s := &l.slots[i]
				m, err := kernel.Pack(s.kind, s.rows, s.cols, s.tensor.Data, s.bytes)
				failures[i] = err
				for _, to := range s.to {
					*to = m
				}
			}
		})
	}
	group.Wait()
	for i, err := range failures {
		if err != nil {
			return fmt.Errorf("tensor %q: %w", l.slots[i].tensor.Name, err)
		}
	}
	return nil
}

// packedBytes is the memory that pack needs.
func (l *loader) packedBytes() int {
	n := 0
	for _, s := range l.slots {
		n += roundUp(kernel.PackedBytes(s.kind, s.rows, s.cols), packedAlignment)
	}
	return n
}

// packedAlignment keeps matrices on cache lines of their own.
const packedAlignment = 64

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }
