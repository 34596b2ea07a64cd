package bpe

import (
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// wholes knows, for models of bytes, the characters of several bytes that may be taken for
// their token before anything is merged, which is most of the work in scripts other than
// Latin.
//
// A character may be, if no merge ever crosses its ends before its bytes are one token, and
// if no merge with that token comes before those of its bytes. Until then the bytes merge as
// they would alone: step by step some pair of them is the next, so a merge across an end
// would have to come before that pair. The second condition keeps the order of all other
// merges as it is. What may touch an end depends on the neighbour, of which it is enough to
// know the group.
type wholes struct {
	pages  []uint16 // of a character: the page of its entry
	tokens []uint32 // pages of 1<<pageBits: token and flags; NoToken: not whole
}

// group is what is known of a neighbour.
type group uint8

const (
	ascii group = iota
	eastAsian
	otherScript
	groups
)

// groupOf is the group of characters that start with a byte.
func groupOf(b byte) group {
	switch {
	case b < utf8.RuneSelf:
		return ascii
	case b >= 0xe3 && b <= 0xed:
		return eastAsian
	}
	return otherScript
}

// The flags of an entry say which groups the neighbours may be of.
func after(g group) uint32  { return 1 << (tokenBits + g) }
func before(g group) uint32 { return 1 << (tokenBits + groups + g) }

const allFlags = (1<<(2*groups) - 1) << tokenBits

// find returns the token of the character of n bytes at a byte of text, if it may be taken.
func (w *wholes) find(text string, i int, r rune, n int) (id uint32, ok bool) {
	e := w.tokens[int(w.pages[r>>pageBits])<<pageBits|int(r)&(pageRunes-1)]
	if e == NoToken {
		return 0, false
	}
	need := uint32(0)
	if i > 0 {
		start := i - 1
		for !utf8.RuneStart(text[start]) {
			start--
		}
		need = after(groupOf(text[start]))
	}
	if i+n < len(text) {
		need |= before(groupOf(text[i+n]))
	}
	return e & tokenMask, e&need == need
}

// edges has for each token, and each group of a neighbour, the rank of the first merge with it.
type edges struct{ left, right [groups][]uint32 }

func newEdges(m *Model, merges []spec.Merge) *edges {
	e := &edges{}
	for g := range groups {
		e.left[g], e.right[g] = filled(m.texts.Len()), filled(m.texts.Len())
	}
	for rank, merge := range merges {
		left, right := m.texts.At(merge.Left), m.texts.At(merge.Right)
		if left == "" || right == "" {
			continue
		}
		from, to := leftGroups(left)
		for g := from; g < to; g++ {
			e.left[g][merge.Right] = min(e.left[g][merge.Right], uint32(rank))
		}
		if utf8.RuneStart(right[0]) { // else no character starts there
			g := groupOf(right[0])
			e.right[g][merge.Left] = min(e.right[g][merge.Left], uint32(rank))
		}
	}
	return e
}

// leftGroups gives the groups that a neighbour may be of, from and below, of which text is
// the end or more. There are none if text ends within a character.
func leftGroups(text string) (from, to group) {
	start := len(text) - 1
	for start >= 0 && !utf8.RuneStart(text[start]) {
		start--
	}
	if start < 0 {
		return eastAsian, groups // of which the start is missing
	}
	if !utf8.ValidString(text[start:]) {
		return 0, 0
	}
	g := groupOf(text[start])
	return g, g + 1
}

func filled(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = noRank
	}
	return out
}

func newWholes(m *Model, merges []spec.Merge) (w wholes) {
	for _, id := range m.symbols.bytes {
		if id == NoToken {
			return w // neighbours may be dropped
		}
	}
	w.pages = make([]uint16, (utf8.MaxRune+1)>>pageBits)
	w.tokens = make([]uint32, pageRunes)
	for i := range w.tokens {
		w.tokens[i] = NoToken
	}
	e := newEdges(m, merges)
	for id := range uint32(m.texts.Len()) {
		text := m.texts.At(id)
		r, n := utf8.DecodeRuneInString(text)
		if n < 2 || n != len(text) {
			continue
		}
		entry, ok := m.whole(text, e)
		if !ok {
			continue
		}
		page := &w.pages[r>>pageBits]
		if *page == 0 {
			*page = uint16(len(w.tokens) >> pageBits)
			w.tokens = append(w.tokens, w.tokens[:pageRunes]...)
		}
		w.tokens[int(*page)<<pageBits|int(r)&(pageRunes-1)] = entry
	}
	return w
}

// whole merges a character alone and says between which neighbours it would go the same.
func (m *Model) whole(text string, e *edges) (entry uint32, ok bool) {
	var symbols []uint32
	for i := range len(text) {
		symbols = append(symbols, m.symbols.bytes[text[i]])
	}
	flags, last := uint32(allFlags), uint32(0)
	for len(symbols) > 1 {
		at, best := 0, uint32(noRank)
		for i := range symbols[1:] {
			if r := m.pairs.rank(symbols[i], symbols[i+1]); r < best {
				at, best = i, r
			}
		}
		if best == noRank {
			return 0, false
		}
		flags &^= e.before(symbols[0], symbols[len(symbols)-1], best)
		last = max(last, best)
		symbols[at] = m.pairs.merged[best]
		symbols = append(symbols[:at+1], symbols[at+2:]...)
	}
	if e.before(symbols[0], symbols[0], last) != 0 {
		return 0, false
	}
	return symbols[0] | flags, true
}

// before returns the flags of neighbours that may merge with the first or the last symbol
// no later than a rank.
func (e *edges) before(first, last, rank uint32) (flags uint32) {
	for g := range groups {
		if e.left[g][first] <= rank {
			flags |= after(g)
		}
		if e.right[g][last] <= rank {
			flags |= before(g)
		}
	}
	return flags
}
