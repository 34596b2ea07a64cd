package normalize

import "unicode/utf8"

// mapping is a step that changes characters without regard to their neighbours.
type mapping struct {
	// changes is not 0 for the characters that change.
	changes *table
	// ascii has the same of ASCII.
	ascii [utf8.RuneSelf]bool
	// appendChanged appends what a character that changes becomes, which may be nothing. The
	// value is that of changes.
	appendChanged func(dst []byte, r rune, value uint16) []byte
}

var _ step = (*mapping)(nil)

func newMapping(values []uint16, appendChanged func([]byte, rune, uint16) []byte) *mapping {
	m := &mapping{changes: newTable(values), appendChanged: appendChanged}
	for b := range m.ascii {
		m.ascii[b] = values[b] != 0
	}
	return m
}

// next returns where the first character from i on that changes starts and ends, and its value; the end
// of the text if there is none.
func (m *mapping) next(text string, i int) (start, end int, value uint16) {
	for i < len(text) {
		b := text[i]
		if b < utf8.RuneSelf {
			if m.ascii[b] {
				return i, i + 1, m.changes.of(rune(b))
			}
			i++
			continue
		}
		value, n := m.changes.at(text, i)
		if value != 0 {
			return i, i + n, value
		}
		i += n
	}
	return i, i, 0
}

func (m *mapping) same(text string) bool {
	start, _, _ := m.next(text, 0)
	return start == len(text)
}

func (m *mapping) append(dst []byte, text string, _ *scratch) []byte {
	for i := 0; i < len(text); {
		start, end, value := m.next(text, i)
		dst = append(dst, text[i:start]...)
		i = end
		if start < end {
			r, _ := utf8.DecodeRuneInString(text[start:])
			dst = m.appendChanged(dst, r, value)
		}
	}
	return dst
}

func (m *mapping) appendAligned(dst []byte, from []uint32, text string, _ *scratch) ([]byte, []uint32) {
	for i := 0; i < len(text); {
		start, end, value := m.next(text, i)
		dst = append(dst, text[i:start]...)
		from = appendRange(from, i, start)
		i = end
		if start == end {
			continue
		}
		before := len(dst)
		r, _ := utf8.DecodeRuneInString(text[start:])
		dst = m.appendChanged(dst, r, value)
		for range len(dst) - before {
			from = append(from, uint32(start))
		}
	}
	return dst, from
}

// appendRange appends the numbers from start to before end.
func appendRange(from []uint32, start, end int) []uint32 {
	for i := start; i < end; i++ {
		from = append(from, uint32(i))
	}
	return from
}
