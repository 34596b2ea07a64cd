package tokenizer

import "strings"

// mark is what SentencePiece writes for a blank.
const mark = "▁"

// marks says how blanks become marks. The vocabulary has a blank wherever its file has a
// mark, so text need not be changed for it: a blank in the text is a mark already, and a mark
// in the text becomes a blank. No text has both meanings, since the reference makes a mark of every blank.
type marks struct {
	on     bool
	prefix prefix
}

// prefix says where a blank is put before a text.
type prefix uint8

const (
	noPrefix    prefix = iota
	alwaysBlank        // a Prepend step
	unlessBlank        // where the text does not start with one already
	firstBlank         // the same, at the start of the whole text only
)

// apply makes the marks of a text, which is the first or not. The result may alias the scratch.
func (m marks) apply(text string, first bool, s *scratch) string {
	rewrite := m.on && strings.Contains(text, mark)
	put := m.prefix == alwaysBlank || (m.prefix == unlessBlank || m.prefix == firstBlank && first) && !startsBlank(text, m.on)
	if !rewrite && !put {
		return text
	}
	s.marked = s.marked[:0]
	if put {
		s.marked = append(s.marked, ' ')
	}
	for rewrite {
		before, after, found := strings.Cut(text, mark)
		s.marked = append(s.marked, before...)
		if text = after; !found {
			return asString(s.marked)
		}
		s.marked = append(s.marked, ' ')
	}
	s.marked = append(s.marked, text...)
	return asString(s.marked)
}

// blanks is a text with blanks for its marks.
func (m marks) blanks(text string) string {
	if !m.on {
		return text
	}
	return strings.ReplaceAll(text, mark, " ")
}

func startsBlank(text string, on bool) bool {
	return strings.HasPrefix(text, " ") || on && strings.HasPrefix(text, mark)
}
