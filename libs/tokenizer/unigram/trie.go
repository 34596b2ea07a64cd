package unigram

import (
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// trie leads from the bytes of a text to the pieces that it starts with. It is a double array: the child of a
// node for a byte is at the node's base XOR that byte, if the unit there says that it is of that base.
type trie struct {
	units []unit
	// ids has the piece that ends at a unit.
	ids  []int32
	root uint32
}

// unit is a node of the trie. Bases are not shared, and base 0 is of the nodes without children.
type unit struct {
	// base is where the children are, and the bit isPiece.
	base uint32
	// parent is the base of the parent; free for a unit that is not in use.
	parent uint32
}

const (
	isPiece   = 1 << 31
	free      = 1<<32 - 1
	blockSize = 256
	// openBlocks is how many of the last blocks are searched for a place, which bounds the time to build.
	openBlocks = 16
)

// newTrie builds the trie. Of pieces with one text the last counts, and an empty one never.
func newTrie(pieces []spec.Piece) *trie {
	order := make([]int32, 0, len(pieces))
	for id, p := range pieces {
		if p.Text != "" {
			order = append(order, int32(id))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		if c := strings.Compare(pieces[a].Text, pieces[b].Text); c != 0 {
			return c
		}
		return int(a - b)
	})
	b := newBuilder(pieces)
	b.build(order)
	return b.trie
}

// find returns the piece that is text; -1: there is none.
func (t *trie) find(text string) int32 {
	at, slot := t.root, uint32(0)
	for i := range len(text) {
		slot = at ^ uint32(text[i])
		if slot >= uint32(len(t.units)) || t.units[slot].parent != at {
			return -1
		}
		at = t.units[slot].base &^ isPiece
	}
	if t.units[slot].base&isPiece == 0 {
		return -1
	}
	return t.ids[slot]
}
