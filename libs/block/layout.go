package block

import (
	"fmt"
	"iter"
)

// ID numbers a block within its pool, from 0.
type ID int32

// Hash identifies a full block and all that came before it: a chain over the
// token ids. It only routes; a pool compares tokens before it shares a block.
type Hash uint64

// Layout says where the keys and values of a token lie within a block.
//
// A block is contiguous. It holds its layers in order; a layer is its keys, then
// its values; both are head-major. Values of a head are [BlockTokens][HeadDim].
// Keys of a head are the same, or [HeadDim][BlockTokens] when KeysTransposed.
type Layout struct {
	BlockTokens    int // tokens per block
	Layers         int
	KVHeads        int
	HeadDim        int // elements per head
	ElemBytes      int // bytes per element
	KeysTransposed bool
}

// Validate reports the first field that cannot be.
func (l Layout) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"block tokens", l.BlockTokens}, {"layers", l.Layers}, {"KV heads", l.KVHeads},
		{"head dimension", l.HeadDim}, {"element bytes", l.ElemBytes},
	} {
		if f.value <= 0 {
			return fmt.Errorf("KV layout: %s is %d, want at least 1", f.name, f.value)
		}
	}
	return nil
}

// RowBytes is the size of one token's keys and values over all layers, in bytes:
// layers · 2 · KV heads · head dimension · bytes per element.
func (l Layout) RowBytes() int { return l.Layers * 2 * l.KVHeads * l.HeadDim * l.ElemBytes }

// BlockBytes is the size of one block, in bytes.
func (l Layout) BlockBytes() int { return l.BlockTokens * l.RowBytes() }

// Blocks is the number of blocks that hold n tokens.
func (l Layout) Blocks(n int) int { return (n + l.BlockTokens - 1) / l.BlockTokens }

// KeysOffset is where the keys of a layer's head start within a block, in bytes.
func (l Layout) KeysOffset(layer, head int) int {
	return (layer*2*l.KVHeads + head) * l.BlockTokens * l.HeadDim * l.ElemBytes
}

// ValuesOffset is where the values of a layer's head start within a block, in bytes.
func (l Layout) ValuesOffset(layer, head int) int {
	return ((layer*2+1)*l.KVHeads + head) * l.BlockTokens * l.HeadDim * l.ElemBytes
}

// Span is a run of bytes within a pool's memory.
type Span struct{ Offset, Bytes int }

// Spans yields the runs of bytes that hold the rows [from, to) of a block, in
// ascending order. A whole block is one run; a part of one is many short runs.
func (l Layout) Spans(b ID, from, to int) iter.Seq[Span] {
	base := int(b) * l.BlockBytes()
	return func(yield func(Span) bool) {
		switch {
		case from >= to:
		case from == 0 && to == l.BlockTokens:
			yield(Span{base, l.BlockBytes()})
		default:
			l.partSpans(base, from, to, yield)
		}
	}
}

func (l Layout) partSpans(base, from, to int, yield func(Span) bool) {
	run := (to - from) * l.ElemBytes
	for layer := range l.Layers {
		for head := range l.KVHeads {
			keys := base + l.KeysOffset(layer, head)
			if !l.KeysTransposed {
				if !yield(Span{keys + from*l.HeadDim*l.ElemBytes, run * l.HeadDim}) {
					return
				}
				continue
			}
			for d := range l.HeadDim {
				if !yield(Span{keys + (d*l.BlockTokens+from)*l.ElemBytes, run}) {
					return
				}
			}
		}
		for head := range l.KVHeads {
			if !yield(Span{base + l.ValuesOffset(layer, head) + from*l.HeadDim*l.ElemBytes, run * l.HeadDim}) {
				return
			}
		}
	}
}

// Memory is the bytes of a pool of blocks: block b lies at b · BlockBytes. A
// transport's registered region implements it.
type Memory interface {
	// Bytes is the memory itself, or nil when the CPU cannot reach it.
	Bytes() []byte
	// Layout says where a token's keys and values lie within a block.
	Layout() Layout
	// Blocks is the number of blocks.
	Blocks() int
}
