package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/chars"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// matcher finds added tokens in text: the leftmost first, of those that start at the same
// byte the longest.
type matcher struct {
	tokens map[string]*spec.AddedToken
	// lengths of the tokens that start with a byte, longest first.
	lengths [256][]int
	only    string // the one byte with which all start; "" if there are more
	word    []chars.Range
	space   []chars.Range
}

func newMatcher(tokens []spec.AddedToken) matcher {
	m := matcher{tokens: map[string]*spec.AddedToken{}}
	for i := range tokens {
		a := &tokens[i]
		if a.Content == "" {
			continue
		}
		m.tokens[a.Content] = a
		first := a.Content[0]
		if l := m.lengths[first]; !slices.Contains(l, len(a.Content)) {
			m.lengths[first] = append(l, len(a.Content))
		}
		if a.SingleWord && m.word == nil {
			m.word = chars.Word()
		}
		if (a.LStrip || a.RStrip) && m.space == nil {
			m.space = chars.WhiteSpace()
		}
	}
	starts := 0
	for b := range m.lengths {
		slices.SortFunc(m.lengths[b], func(x, y int) int { return y - x })
		if len(m.lengths[b]) > 0 {
			starts++
			m.only = string([]byte{byte(b)})
		}
	}
	if starts != 1 {
		m.only = ""
	}
	return m
}

func (m *matcher) empty() bool { return len(m.tokens) == 0 }

// match is an added token in a text: where it is with the white space that it takes along, and
// where the next is looked for. White space that was taken may be a token itself.
type match struct {
	start, end, next int
	id               sequence.Token
}

// find returns the first match that is found from a byte on, or an empty one at the end of
// text. White space before byte at is not taken. Control tokens do not touch what is untrusted.
func (m *matcher) find(text string, at, from int, untrusted *spans) match {
	none := match{len(text), len(text), len(text), 0}
	if m.empty() {
		return none
	}
	for i := from; i < len(text); i++ {
		if m.only != "" {
			n := strings.IndexByte(text[i:], m.only[0])
			if n < 0 {
				break
			}
			i += n
		}
		a := m.at(text, i, untrusted)
		switch {
		case a == nil:
		case !m.alone(a, text, i, i+len(a.Content)):
			i += len(a.Content) - 1 // nothing within it is looked for, as in the reference
		default:
			start, end := m.stretch(a, text, at, i, i+len(a.Content))
			return match{start, end, i + len(a.Content), a.ID}
		}
	}
	return none
}

// at is the longest token that starts at a byte, or nil.
func (m *matcher) at(text string, i int, untrusted *spans) *spec.AddedToken {
	for _, n := range m.lengths[text[i]] {
		if i+n > len(text) {
			continue
		}
		if a := m.tokens[text[i:i+n]]; a != nil && !(a.Special && untrusted.overlap(i, i+n)) {
			return a
		}
	}
	return nil
}

// finder goes through a text match by match.
type finder struct {
	m         *matcher
	text      string
	at, from  int // where the last match ended, and where the next is looked for
	untrusted spans
}

// next returns what is before the next match, which may be empty, with the spans of the whole
// text that are untrusted from there on, and the match. Without one the rest of the text is before it.
func (f *finder) next() (before span, untrusted spans, found match, ok bool) {
	untrusted = f.untrusted
	found = f.m.find(f.text, f.at, f.from, &f.untrusted)
	before = span{f.at, max(f.at, found.start)}
	f.at, f.from = found.end, found.next
	return before, untrusted, found, found.next > found.start || found.end > found.start
}

// alone reports whether a single-word token stands by itself; others always do.
func (m *matcher) alone(a *spec.AddedToken, text string, start, end int) bool {
	if !a.SingleWord {
		return true
	}
	before, n := utf8.DecodeLastRuneInString(text[:start])
	after, k := utf8.DecodeRuneInString(text[end:])
	return (n == 0 || !chars.Contains(m.word, before)) && (k == 0 || !chars.Contains(m.word, after))
}

// stretch takes white space along, if the token does, but none before byte at.
func (m *matcher) stretch(a *spec.AddedToken, text string, at, start, end int) (from, to int) {
	for a.LStrip && start > at {
		r, n := utf8.DecodeLastRuneInString(text[at:start])
		if !chars.Contains(m.space, r) {
			break
		}
		start -= n
	}
	for a.RStrip && end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if !chars.Contains(m.space, r) {
			break
		}
		end += n
	}
	return start, end
}
