// Package cputest makes small Llama model files with random weights, for tests
// that need a real engine but no sensible text. It is not for programs.
package cputest

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/switchyard-llm/switchyard/libs/gguf"
)

// Shape is the size of a model; see Tiny for a complete one.
type Shape struct {
	Layers, Width, Hidden         int // Width and Hidden are multiples of 32
	Heads, KVHeads, HeadDim       int // HeadDim is a multiple of 32
	VocabTokens, ContextTokens    int
	Embedding, Attention, Feeding gguf.Type // Q4_1, Q8_0 or F32
	// Untied gives the output a matrix of its own.
	Untied bool
}

// Tiny is a model of some hundred kilobytes with all weight types, grouped heads
// and a vocabulary that ends within a group of four rows.
func Tiny() Shape {
	return Shape{
		Layers: 3, Width: 96, Hidden: 160, Heads: 4, KVHeads: 1, HeadDim: 32, VocabTokens: 259, ContextTokens: 512,
		Embedding: gguf.TypeQ8_0, Attention: gguf.TypeQ4_1, Feeding: gguf.TypeF32,
	}
}

// Write writes a model file. The same shape and seed give the same file. Extra
// metadata, a tokenizer's say, goes in front.
func Write(w io.Writer, s Shape, seed uint64, extra ...gguf.Pair) error {
	return gguf.Write(w, append(extra, Metadata(s)...), Tensors(s, seed))
}

// Metadata is what a llama file says about its shape.
func Metadata(s Shape) []gguf.Pair {
	return []gguf.Pair{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(s.Layers)},
		{Key: "llama.context_length", Value: uint32(s.ContextTokens)},
		{Key: "llama.embedding_length", Value: uint32(s.Width)},
		{Key: "llama.feed_forward_length", Value: uint32(s.Hidden)},
		{Key: "llama.attention.head_count", Value: uint32(s.Heads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(s.KVHeads)},
		{Key: "llama.attention.key_length", Value: uint32(s.HeadDim)},
		{Key: "llama.attention.value_length", Value: uint32(s.HeadDim)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "llama.rope.dimension_count", Value: uint32(s.HeadDim)},
		{Key: "llama.rope.freq_base", Value: float32(10000)},
	}
}

// Tensors is the weights of a file: those of a matrix are evenly distributed and
// scaled so that activations stay of the order of one.
func Tensors(s Shape, seed uint64) []gguf.Tensor {
	m := maker{random: rand.New(rand.NewPCG(seed, 0x5eed))}
	heads, kvHeads := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	m.matrix("token_embd.weight", s.Embedding, s.VocabTokens, s.Width)
	if s.Untied {
		m.matrix("output.weight", s.Embedding, s.VocabTokens, s.Width)
	}
	m.norm("output_norm.weight", s.Width)
	for i := range s.Layers {
		prefix := fmt.Sprintf("blk.%d.", i)
		m.norm(prefix+"attn_norm.weight", s.Width)
		m.norm(prefix+"ffn_norm.weight", s.Width)
		m.matrix(prefix+"attn_q.weight", s.Attention, heads, s.Width)
		m.matrix(prefix+"attn_k.weight", s.Attention, kvHeads, s.Width)
		m.matrix(prefix+"attn_v.weight", s.Attention, kvHeads, s.Width)
		m.matrix(prefix+"attn_output.weight", s.Attention, s.Width, heads)
		m.matrix(prefix+"ffn_gate.weight", s.Feeding, s.Hidden, s.Width)
		m.matrix(prefix+"ffn_up.weight", s.Feeding, s.Hidden, s.Width)
		m.matrix(prefix+"ffn_down.weight", s.Feeding, s.Width, s.Hidden)
	}
	return m.tensors
}

type maker struct {
	random  *rand.Rand
	tensors []gguf.Tensor
}

func (m *maker) add(name string, kind gguf.Type, data []byte, dims ...uint64) {
	m.tensors = append(m.tensors, gguf.Tensor{Name: name, Type: kind, Dims: dims, Data: data})
}

func (m *maker) norm(name string, n int) {
	var data []byte
	for range n {
		data = appendFloat(data, 0.75+0.5*m.random.Float32())
	}
	m.add(name, gguf.TypeF32, data, uint64(n))
}

// matrix makes weights of about ±√(3/cols), the variance of one over cols.
func (m *maker) matrix(name string, kind gguf.Type, rows, cols int) {
	reach := math.Sqrt(3 / float64(cols))
	data := make([]byte, 0, int(kind.Bytes(uint64(rows*cols))))
	for range rows * cols / int(kind.BlockElements()) {
		switch kind {
		case gguf.TypeQ4_1:
			data = binary.LittleEndian.AppendUint16(data, half(2*reach/15))
			data = binary.LittleEndian.AppendUint16(data, half(-reach))
			data = m.bytes(data, 16)
		case gguf.TypeQ8_0:
			data = binary.LittleEndian.AppendUint16(data, half(reach/127))
			data = m.bytes(data, 32)
		default:
			data = appendFloat(data, float32(reach)*(2*m.random.Float32()-1))
		}
	}
	m.add(name, kind, data, uint64(cols), uint64(rows))
}

func (m *maker) bytes(data []byte, n int) []byte {
	for range n {
		data = append(data, byte(m.random.Uint32()))
	}
	return data
}

func appendFloat(data []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
}

// half rounds a normal number of the format to an IEEE 754 half, towards zero.
func half(f float64) uint16 {
	bits := math.Float32bits(float32(f))
	exponent := int(bits>>23&255) - 112
	if exponent < 1 || exponent > 30 {
		panic(fmt.Sprintf("cputest: %g is no normal half", f))
	}
	return uint16(bits>>16&0x8000) | uint16(exponent)<<10 | uint16(bits>>13&1023)
}
