package normalize

import (
	"math/bits"
	"unicode/utf8"
)

// form is one of the normal forms NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15).
type form struct {
	data           *unicodeData
	decompositions *table
	composes       bool
	// slow and inner are the bits of the form.
	slow, inner uint16
}

var _ step = (*form)(nil)

func newForm(name string) *form {
	d := loadData()
	switch name {
	case "NFC":
		return &form{data: d, decompositions: d.canonical, composes: true, slow: slowC, inner: innerC}
	case "NFKC":
		return &form{data: d, decompositions: d.compatible, composes: true, slow: slowKC, inner: innerKC}
	case "NFD":
		return &form{data: d, decompositions: d.canonical, slow: slowD, inner: innerD}
	default:
		return &form{data: d, decompositions: d.compatible, slow: slowKD, inner: innerKD}
	}
}

func (f *form) same(text string) bool {
	_, end := f.quick(text, 0)
	return end == len(text)
}

// append copies what is in the form already, and brings the rest into it piece by piece: from
// a character that nothing crosses to the next such.
func (f *form) append(dst []byte, text string, s *scratch) []byte {
	copied := 0
	for i := 0; i < len(text); {
		start, end := f.quick(text, i)
		if end == len(text) {
			break
		}
		dst = append(dst, text[copied:start]...)
		i = f.pieceEnd(text, end)
		dst = f.appendPiece(dst, text[start:i], s)
		copied = i
	}
	return append(dst, text[copied:]...)
}

// quick looks at the text from i, which nothing crosses, until a character that is not in the
// form for sure. It returns where the piece with it starts, and where it stands itself; the
// end of the text if there is none.
func (f *form) quick(text string, i int) (start, end int) {
	start = i
	class := uint16(0)
	look := f.slow | f.inner | classMask
	for i < len(text) {
		if text[i] < utf8.RuneSelf {
			i = asciiEnd(text, i+1)
			start, class = i-1, 0
			continue
		}
		p, n := f.data.properties.at(text, i)
		if p&look == 0 {
			start, class = i, 0
			i += n
			continue
		}
		if p&f.inner == 0 {
			start = i
		}
		// A slow character, one without a class that joins, or one out of order.
		if p&f.slow != 0 || p&classMask < max(class, 1) {
			return start, i
		}
		class = p & classMask
		i += n
	}
	return start, i
}

// pieceEnd returns where the piece with the character at i ends.
func (f *form) pieceEnd(text string, i int) int {
	_, n := f.data.properties.at(text, i)
	for i += n; i < len(text) && text[i] >= utf8.RuneSelf; i += n {
		var p uint16
		if p, n = f.data.properties.at(text, i); p&f.inner == 0 {
			break
		}
	}
	return i
}

func (f *form) appendPiece(dst []byte, piece string, s *scratch) []byte {
	for _, it := range f.items(piece, s) {
		dst = utf8.AppendRune(dst, it.r)
	}
	return dst
}

// items returns the characters of a piece in the form. They are valid until the next call.
func (f *form) items(piece string, s *scratch) []item {
	s.items = s.items[:0]
	for _, r := range piece {
		s.items = f.decompose(s.items, r)
	}
	order(s.items, s)
	if f.composes {
		return f.compose(s.items)
	}
	return s.items
}

func (f *form) appendAligned(dst []byte, from []uint32, text string, s *scratch) ([]byte, []uint32) {
	m := mover{dst: dst, from: from, text: text}
	for _, it := range f.items(text, s) {
		m.move(it.r, int(it.change))
	}
	return m.dst, m.from
}

// asciiEnd returns where the ASCII from i on ends, eight bytes at a time.
func asciiEnd(text string, i int) int {
	const high = 0x8080808080808080
	for i+8 <= len(text) {
		if w := word(text, i) & high; w != 0 {
			return i + bits.TrailingZeros64(w)/8
		}
		i += 8
	}
	for i < len(text) && text[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// word returns eight bytes of text; the compiler makes one load of it.
func word(text string, i int) uint64 {
	b := text[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}
