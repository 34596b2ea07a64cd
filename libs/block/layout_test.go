package block_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// elementOffset is where one element lies within a block, from the description of
// Layout alone. The head counts from the rank's first.
func elementOffset(l block.Layout, layer int, keys bool, head, token, element int) int {
	local := l.LocalHeads()
	at := layer * 2 * local * l.BlockTokens * l.HeadDim
	if !keys {
		at += local * l.BlockTokens * l.HeadDim
	}
	switch {
	case keys && l.KeysTransposed:
		at += head*l.HeadDim*l.BlockTokens + element*l.BlockTokens + token
	case l.TokenMajor:
		at += token*local*l.HeadDim + head*l.HeadDim + element
	default:
		at += head*l.BlockTokens*l.HeadDim + token*l.HeadDim + element
	}
	return at * l.ElemBytes
}

// randomLayout has a rank, but fits any other of the same model.
func randomLayout(r *rand.Rand, model block.Layout) block.Layout {
	l := model
	l.BlockTokens = 1 + r.IntN(9)
	l.KeysTransposed, l.TokenMajor = r.IntN(3) == 0, r.IntN(3) == 0
	sizes := []int{0}
	for n := 1; n <= 4*model.KVHeads; n++ {
		if model.KVHeads%n == 0 || n%model.KVHeads == 0 {
			sizes = append(sizes, n)
		}
	}
	l.TPSize = sizes[r.IntN(len(sizes))]
	l.TPRank = r.IntN(max(1, l.TPSize))
	return l
}

func randomModel(r *rand.Rand) block.Layout {
	return block.Layout{Layers: 1 + r.IntN(3), KVHeads: 1 + r.IntN(6), HeadDim: 1 + r.IntN(5), ElemBytes: 1 << r.IntN(3)}
}

func TestZeroValuesMeanOneRankAndHeadMajor(t *testing.T) {
	l := block.Layout{BlockTokens: 16, Layers: 30, KVHeads: 3, HeadDim: 64, ElemBytes: 4, KeysTransposed: true}
	if l.LocalHeads() != 3 || l.FirstHead() != 0 || l.RowBytes() != 46080 || l.BlockBytes() != 16*46080 {
		t.Errorf("%d heads from %d, %d bytes a row, %d a block", l.LocalHeads(), l.FirstHead(), l.RowBytes(), l.BlockBytes())
	}
	if k, v := l.KeysOffset(2, 1), l.ValuesOffset(2, 1); k != (2*2*3+1)*4096 || v != (2*2*3+3+1)*4096 {
		t.Errorf("keys at %d, values at %d", k, v)
	}
}

func TestRanksHoldTheirPartOfTheHeads(t *testing.T) {
	for _, c := range []struct{ heads, size, rank, first, local int }{
		{8, 0, 0, 0, 8}, {8, 1, 0, 0, 8}, {8, 2, 1, 4, 4}, {8, 4, 3, 6, 2}, {8, 8, 5, 5, 1},
		{8, 16, 5, 2, 1}, {8, 16, 15, 7, 1}, {1, 4, 3, 0, 1}, {2, 8, 3, 0, 1}, {2, 8, 4, 1, 1},
	} {
		l := block.Layout{BlockTokens: 4, Layers: 2, KVHeads: c.heads, HeadDim: 8, ElemBytes: 2, TPSize: c.size, TPRank: c.rank}
		if err := l.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if l.FirstHead() != c.first || l.LocalHeads() != c.local || l.RowBytes() != 2*2*c.local*8*2 {
			t.Errorf("%+v: %d heads from %d, %d bytes a row", c, l.LocalHeads(), l.FirstHead(), l.RowBytes())
		}
	}
}

func TestLayoutThatCannotBeIsRefusedByName(t *testing.T) {
	good := block.Layout{BlockTokens: 4, Layers: 2, KVHeads: 6, HeadDim: 8, ElemBytes: 2, TPSize: 2, TPRank: 1}
	for want, change := range map[string]func(*block.Layout){
		"block tokens is 0":         func(l *block.Layout) { l.BlockTokens = 0 },
		"element bytes is -1":       func(l *block.Layout) { l.ElemBytes = -1 },
		"TP size is -1":             func(l *block.Layout) { l.TPSize = -1 },
		"TP size is 65537":          func(l *block.Layout) { l.TPSize = 1<<16 + 1 },
		"TP rank is 2, want 0 to 1": func(l *block.Layout) { l.TPRank = 2 },
		"TP rank is 1, want 0 to 0": func(l *block.Layout) { l.TPSize = 0 },
		"TP rank is -1":             func(l *block.Layout) { l.TPRank = -1 },
		"6 KV heads do not divide":  func(l *block.Layout) { l.TPSize = 4 },
		"among 8 ranks":             func(l *block.Layout) { l.TPSize = 8 },
	} {
		l := good
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestSpansHoldTheRowsAndNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		l := randomLayout(r, randomModel(r))
		from := r.IntN(l.BlockTokens + 1)
		to := from + r.IntN(l.BlockTokens+1-from)
		id := r.IntN(3)
		want := make([]bool, 3*l.BlockBytes())
		eachElement(l, func(layer int, keys bool, head, token, element int) {
			at := id*l.BlockBytes() + elementOffset(l, layer, keys, head, token, element)
			for i := range l.ElemBytes {
				want[at+i] = token >= from && token < to
			}
		})
		end := 0
		for s := range l.Spans(block.ID(id), from, to) {
			if s.Offset < end || s.Bytes <= 0 {
				t.Fatalf("%+v rows %d to %d: %+v after offset %d", l, from, to, s, end)
			}
			for ; end < s.Offset+s.Bytes; end++ {
				if want[end] != (end >= s.Offset) {
					t.Fatalf("%+v rows %d to %d: byte %d is held: %v", l, from, to, end, !want[end])
				}
			}
		}
		for ; end < len(want); end++ {
			if want[end] {
				t.Fatalf("%+v rows %d to %d: byte %d is not held", l, from, to, end)
			}
		}
	}
}

func TestOffsetsAreThoseOfTheFirstElement(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		l := randomLayout(r, randomModel(r))
		layer, head := r.IntN(l.Layers), r.IntN(l.LocalHeads())
		if k, want := l.KeysOffset(layer, head), elementOffset(l, layer, true, head, 0, 0); k != want {
			t.Fatalf("%+v: keys of %d, %d at %d, want %d", l, layer, head, k, want)
		}
		if v, want := l.ValuesOffset(layer, head), elementOffset(l, layer, false, head, 0, 0); v != want {
			t.Fatalf("%+v: values of %d, %d at %d, want %d", l, layer, head, v, want)
		}
	}
}

func eachElement(l block.Layout, visit func(layer int, keys bool, head, token, element int)) {
	for layer := range l.Layers {
		for _, keys := range []bool{true, false} {
			for head := range l.LocalHeads() {
				for token := range l.BlockTokens {
					for element := range l.HeadDim {
						visit(layer, keys, head, token, element)
					}
				}
			}
		}
	}
}
