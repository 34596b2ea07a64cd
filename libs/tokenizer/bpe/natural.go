package bpe

import "unicode/utf8"

// meetings knows which neighbouring characters are within a token. Between two others no
// merge ever crosses, so a text of characters falls into short pieces there, which can be
// remembered; without that a whole text would be one piece.
type meetings struct {
	ascii asciiPairs
	// others is a Bloom filter with one function. A pair that is in it by chance costs a
	// border, no error.
	others []uint64
	shift  uint
	none   bool // nothing is known: there are no borders
}

// asciiPairs has a bit for each pair of ASCII characters.
type asciiPairs [utf8.RuneSelf][utf8.RuneSelf / 64]uint64

// build leaves nothing known where a border may matter after all: where tokens are merged whose
// text is not their character, and where a whole piece is looked up before anything is merged.
func (n *meetings) build(m *Model, oddMerges, ignoreMerges bool) {
	if n.none = m.symbols.bytewise || oddMerges || ignoreMerges; n.none {
		return
	}
	const bits = 22
	n.others, n.shift = make([]uint64, 1<<bits/64), 64-bits
	for id := range uint32(m.texts.Len()) {
		text := m.texts.At(id)
		if m.symbols.atoms[id] {
			continue
		}
		last, size := utf8.DecodeRuneInString(text)
		for size < len(text) {
			r, k := utf8.DecodeRuneInString(text[size:])
			n.add(last, r)
			last, size = r, size+k
		}
	}
}

func (n *meetings) add(a, b rune) {
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		n.ascii[a][b>>6] |= 1 << (b & 63)
		return
	}
	h := n.hash(a, b)
	n.others[h>>6] |= 1 << (h & 63)
}

func (n *meetings) hash(a, b rune) uint64 {
	return (uint64(a)<<21 | uint64(b)) * 0x9e3779b97f4a7c15 >> n.shift
}

func (n *meetings) has(a, b rune) bool {
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		return n.ascii[a][b>>6]>>(b&63)&1 != 0
	}
	h := n.hash(a, b)
	return n.others[h>>6]>>(h&63)&1 != 0
}

// Cuts reports whether a text may have borders.
func (m *Model) Cuts() bool { return !m.meetings.none }

// Border returns the first place from a byte on, and behind the first character, that no
// merge crosses, or -1. Text is valid UTF-8.
func (m *Model) Border(text string, from int) int {
	if m.meetings.none {
		return -1
	}
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	if from >= len(text) {
		return -1
	}
	last, size := rune(-1), 0
	if from > 0 {
		last, _ = utf8.DecodeLastRuneInString(text[:from])
	}
	for at := from; at < len(text); at += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[at:])
		if last >= 0 && !m.meetings.has(last, r) && !m.loose(last) && !m.loose(r) {
			return at
		}
		last = r
	}
	return -1
}

// loose reports whether a character has no token and is dropped, or may be taken into one
// unknown token with its neighbour.
func (m *Model) loose(r rune) bool {
	s := &m.symbols
	return s.token(r) == NoToken && !s.fallsBack(string(r)) && (s.fuse || s.unk == NoToken)
}
