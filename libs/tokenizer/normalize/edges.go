package normalize

import (
	"strings"
	"unicode"
)

// strip removes white space from the ends. What Go's unicode.IsSpace takes for it has been the same
// in all versions of Unicode since.
type strip struct{ left, right bool }

var _ step = (*strip)(nil)

func (s *strip) cut(text string) (start, end int) {
	rest := text
	if s.left {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
	}
	start = len(text) - len(rest)
	if s.right {
		rest = strings.TrimRightFunc(rest, unicode.IsSpace)
	}
	return start, start + len(rest)
}

func (s *strip) same(text string) bool {
	start, end := s.cut(text)
	return end-start == len(text)
}

func (s *strip) append(dst []byte, text string, _ *scratch) []byte {
	start, end := s.cut(text)
	return append(dst, text[start:end]...)
}

func (s *strip) appendAligned(dst []byte, from []uint32, text string, _ *scratch) ([]byte, []uint32) {
	start, end := s.cut(text)
	return append(dst, text[start:end]...), appendRange(from, start, end)
}

// prepend puts itself before a text that is not empty.
type prepend string

var _ step = prepend("")

func (p prepend) same(text string) bool { return text == "" }

func (p prepend) append(dst []byte, text string, _ *scratch) []byte {
	if text == "" {
		return dst
	}
	return append(append(dst, p...), text...)
}

func (p prepend) appendAligned(dst []byte, from []uint32, text string, s *scratch) ([]byte, []uint32) {
	dst = p.append(dst, text, s)
	if text == "" {
		return dst, from
	}
	for range len(p) {
		from = append(from, 0)
	}
	return dst, appendRange(from, 0, len(text))
}
