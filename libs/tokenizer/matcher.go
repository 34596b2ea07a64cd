package tokenizer

import (
	"slices"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// matcher finds control and user-defined tokens in text: the leftmost first, of
// those that start at the same byte the longest.
type matcher struct {
	ids     map[string]sequence.Token
	control map[sequence.Token]bool
	// lengths of the tokens that start with a byte, longest first.
	lengths [256][]int
}

func newMatcher(v *vocabulary) matcher {
	m := matcher{ids: map[string]sequence.Token{}, control: map[sequence.Token]bool{}}
	for i, kind := range v.kinds {
		id := sequence.Token(i)
		text := v.text(id)
		if kind != kindControl && kind != kindUserDefined || text == "" {
			continue
		}
		m.ids[text] = id
		m.control[id] = kind == kindControl
		if l := m.lengths[text[0]]; !slices.Contains(l, len(text)) {
			m.lengths[text[0]] = append(l, len(text))
		}
	}
	for i := range m.lengths {
		slices.Sort(m.lengths[i])
		slices.Reverse(m.lengths[i])
	}
	return m
}

// find returns the first match that starts at byte at or later, or an empty one at
// the end of text.
func (m *matcher) find(text string, at int, untrusted *spans) (start, end int, id sequence.Token) {
	for i := at; i < len(text); i++ {
		for _, n := range m.lengths[text[i]] {
			if i+n > len(text) {
				continue
			}
			id, ok := m.ids[text[i:i+n]]
			if ok && !(m.control[id] && untrusted.overlap(i, i+n)) {
				return i, i + n, id
			}
		}
	}
	return len(text), len(text), noToken
}
