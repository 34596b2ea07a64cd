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

// maxTPSize bounds the ranks of a model, so that no product of ranks and heads
// that comes from a peer can overflow.
const maxTPSize = 1 << 16

// Layout says where the keys and values of a token lie within a block of one
// tensor-parallel rank.
//
// A block is contiguous. It holds its layers in order; a layer is its keys, then its
// values, of the heads that the rank holds. Head-major, a head's values are
// [BlockTokens][HeadDim], one head after the other; token-major, a layer's values are
// [BlockTokens][heads][HeadDim]. Keys are laid out as values, or, when KeysTransposed,
// as [HeadDim][BlockTokens] of one head after the other in either order.
type Layout struct {
	BlockTokens    int // tokens per block
	Layers         int
	KVHeads        int // of the whole model, over all ranks
	HeadDim        int // elements per head
	ElemBytes      int // bytes per element
	KeysTransposed bool
	TokenMajor     bool
	TPSize         int // ranks that share the model's KV heads; 0 means 1, but is not == to it
	TPRank         int // which of them this is, from 0
}

// Validate reports the first field that cannot be. The KV heads must divide among the
// ranks, or the ranks among the KV heads.
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
	switch ranks := l.ranks(); {
	case l.TPSize < 0 || l.TPSize > maxTPSize:
		return fmt.Errorf("KV layout: TP size is %d, want 0 to %d", l.TPSize, maxTPSize)
	case l.TPRank < 0 || l.TPRank >= ranks:
		return fmt.Errorf("KV layout: TP rank is %d, want 0 to %d", l.TPRank, ranks-1)
	case l.KVHeads%ranks != 0 && ranks%l.KVHeads != 0:
		return fmt.Errorf("KV layout: %d KV heads do not divide among %d ranks, nor the ranks among the heads", l.KVHeads, ranks)
	}
	return nil
}

func (l Layout) ranks() int { return max(1, l.TPSize) }

// replicas is the number of ranks that hold the same heads.
func (l Layout) replicas() int { return max(1, l.ranks()/l.KVHeads) }

// LocalHeads is the number of KV heads that the rank holds: KVHeads / TPSize, at least 1.
func (l Layout) LocalHeads() int {
	if l.TPSize <= 1 {
		return l.KVHeads
	}
	return max(1, l.KVHeads/l.TPSize)
}

// FirstHead is the model's number of the rank's first KV head. With more ranks than
// heads, neighbouring ranks hold the same one: rank r holds head r · KVHeads / TPSize.
func (l Layout) FirstHead() int { return l.TPRank / l.replicas() * l.LocalHeads() }

// RowBytes is the size of one token's keys and values over all layers on one rank, in
// bytes: layers · 2 · local KV heads · head dimension · bytes per element.
func (l Layout) RowBytes() int { return l.Layers * 2 * l.LocalHeads() * l.HeadDim * l.ElemBytes }

// BlockBytes is the size of one block, in bytes.
func (l Layout) BlockBytes() int { return l.BlockTokens * l.RowBytes() }

// Blocks is the number of blocks that hold n tokens.
func (l Layout) Blocks(n int) int { return (n + l.BlockTokens - 1) / l.BlockTokens }

// KeysOffset is where the keys of a layer's head start within a block, in bytes. The
// head counts from the rank's first. Token-major, only the first token's keys lie there
// together, unless they are transposed.
func (l Layout) KeysOffset(layer, head int) int {
	if l.TokenMajor && !l.KeysTransposed {
		return (layer*2*l.LocalHeads()*l.BlockTokens + head) * l.HeadDim * l.ElemBytes
	}
	return (layer*2*l.LocalHeads() + head) * l.BlockTokens * l.HeadDim * l.ElemBytes
}

// ValuesOffset is where the values of a layer's head start within a block, in bytes. The
// head counts from the rank's first. Token-major, only the first token's values lie
// there together.
func (l Layout) ValuesOffset(layer, head int) int {
	if l.TokenMajor {
		return ((layer*2+1)*l.LocalHeads()*l.BlockTokens + head) * l.HeadDim * l.ElemBytes
	}
	return ((layer*2+1)*l.LocalHeads() + head) * l.BlockTokens * l.HeadDim * l.ElemBytes
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
	for layer := range l.Layers {
		keys, values := base+l.KeysOffset(layer, 0), base+l.ValuesOffset(layer, 0)
		ok := l.KeysTransposed && l.columnSpans(keys, from, to, yield) || !l.KeysTransposed && l.rowSpans(keys, from, to, yield)
		if !ok || !l.rowSpans(values, from, to, yield) {
			return
		}
	}
}

// rowSpans yields the rows of a layer's keys or values that start at an offset.
func (l Layout) rowSpans(at, from, to int, yield func(Span) bool) bool {
	heads, row := l.LocalHeads(), l.HeadDim*l.ElemBytes
	if l.TokenMajor {
		heads, row = 1, heads*row
	}
	for head := range heads {
		if !yield(Span{at + (head*l.BlockTokens+from)*row, (to - from) * row}) {
			return false
		}
	}
	return true
}

// columnSpans yields the same of transposed keys.
func (l Layout) columnSpans(at, from, to int, yield func(Span) bool) bool {
	for column := range l.LocalHeads() * l.HeadDim {
		if !yield(Span{at + (column*l.BlockTokens+from)*l.ElemBytes, (to - from) * l.ElemBytes}) {
			return false
		}
	}
	return true
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
