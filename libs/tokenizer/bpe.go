package tokenizer

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

const (
	noToken = sequence.Token(math.MaxUint32)
	noRank  = uint32(math.MaxUint32)
)

// bpe merges the bytes of a piece: always the pair that was learnt first, of equal
// ones the leftmost.
type bpe struct {
	bytes [256]sequence.Token // the token of a single byte, or noToken
	// pairs is an open-addressed table of merges, at most half full.
	pairs []pairSlot
	shift uint
	// words holds the normal tokens of two bytes and more: a piece that is one of
	// them needs no merging, provided that its bytes would merge to that token.
	words map[string]sequence.Token
	// proofs says of each token in words whether they do. Proving all beforehand
	// would double the time to load.
	proofs []atomic.Uint32
}

// States of a proof. Several goroutines may find the same one at once.
const (
	unproven = iota
	mergesToItself
	mergesElsewhere
)

type pairSlot struct {
	left, right sequence.Token // noToken in left: the slot is empty
	rank        uint32
	merged      sequence.Token
}

// load reads the merges; ids holds the vocabulary as it is in the file.
func (b *bpe) load(f *gguf.File, ids map[string]sequence.Token) error {
	const key = "tokenizer.ggml.merges"
	merges, err := f.Strings(key)
	if err != nil {
		return err
	}
	for i, r := range newByteAlphabet() {
		b.bytes[i] = noToken
		if id, ok := ids[string(r)]; ok {
			b.bytes[i] = id
		}
	}
	size := bits.Len(uint(2*len(merges) + 1))
	b.shift = uint(64 - size)
	b.pairs = make([]pairSlot, 1<<size)
	for i := range b.pairs {
		b.pairs[i].left = noToken
	}
	for rank, merge := range merges {
		left, right, ok := strings.Cut(merge, " ")
		l, okL := ids[left]
		r, okR := ids[right]
		merged, okM := ids[left+right]
		if !ok || !okL || !okR || !okM {
			return fmt.Errorf("metadata %q: merge %d is %q, want two tokens whose join is a token", key, rank, merge)
		}
		slot := b.slot(l, r)
		if slot.left == noToken { // a merge that is listed twice keeps its first rank
			*slot = pairSlot{l, r, uint32(rank), merged}
		}
	}
	return nil
}

// slot is where a pair is, or where it would go.
func (b *bpe) slot(left, right sequence.Token) *pairSlot {
	h := (uint64(left)<<32 | uint64(right)) * 0x9e3779b97f4a7c15
	for i := h >> b.shift; ; i = (i + 1) & uint64(len(b.pairs)-1) {
		s := &b.pairs[i]
		if s.left == noToken || s.left == left && s.right == right {
			return s
		}
	}
}

func (b *bpe) rank(left, right sequence.Token) uint32 {
	if s := b.slot(left, right); s.left != noToken {
		return s.rank
	}
	return noRank
}

// indexWords fills words.
func (b *bpe) indexWords(v *vocabulary) {
	b.words = make(map[string]sequence.Token, len(v.kinds))
	b.proofs = make([]atomic.Uint32, len(v.kinds))
	for i, kind := range v.kinds {
		id := sequence.Token(i)
		if text := v.text(id); kind == kindNormal && len(text) > 1 {
			b.words[text] = id
		}
	}
}

// encode appends the tokens of a piece.
func (b *bpe) encode(dst []sequence.Token, piece string, s *scratch) []sequence.Token {
	if len(piece) == 1 {
		return b.merge(dst, piece, s)
	}
	id, ok := b.words[piece]
	if !ok {
		return b.merge(dst, piece, s)
	}
	switch b.proofs[id].Load() {
	case mergesToItself:
		return append(dst, id)
	case mergesElsewhere:
		return b.merge(dst, piece, s)
	}
	from := len(dst)
	dst = b.merge(dst, piece, s)
	proof := uint32(mergesElsewhere)
	if len(dst) == from+1 && dst[from] == id {
		proof = mergesToItself
	}
	b.proofs[id].Store(proof)
	return dst
}
