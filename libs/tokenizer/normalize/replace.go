package normalize

import (
	"errors"
	"fmt"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// replace puts content in the place of each match, from the left.
type replace struct {
	matcher matcher
	content string
}

var _ step = (*replace)(nil)

// matcher finds a match, which is never empty.
type matcher interface {
	// find returns the first match from i on; the end of the text if there is none.
	find(text string, i int) (start, end int)
}

func newReplace(s *spec.Step) (step, error) {
	if s.Pattern == "" {
		return nil, errors.New("the pattern is empty")
	}
	if !s.Regex || !strings.ContainsAny(s.Pattern, `\.^$*+?{}[]()|`) {
		return &replace{matcher: literal(s.Pattern), content: s.Content}, nil
	}
	m, err := newRun(s.Pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", s.Pattern, err)
	}
	return &replace{matcher: m, content: s.Content}, nil
}

func (r *replace) same(text string) bool {
	start, _ := r.matcher.find(text, 0)
	return start == len(text)
}

func (r *replace) append(dst []byte, text string, _ *scratch) []byte {
	for i := 0; i < len(text); {
		start, end := r.matcher.find(text, i)
		dst = append(dst, text[i:start]...)
		if start < end {
			dst = append(dst, r.content...)
		}
		i = end
	}
	return dst
}

// appendAligned gives the content the source of the last character of the match, as the
// reference does.
func (r *replace) appendAligned(dst []byte, from []uint32, text string, _ *scratch) ([]byte, []uint32) {
	for i := 0; i < len(text); {
		start, end := r.matcher.find(text, i)
		dst = append(dst, text[i:start]...)
		from = appendRange(from, i, start)
		if start < end {
			dst = append(dst, r.content...)
			for range len(r.content) {
				from = append(from, uint32(end-1))
			}
		}
		i = end
	}
	return dst, from
}

// literal matches itself.
type literal string

func (l literal) find(text string, i int) (start, end int) {
	at := strings.Index(text[i:], string(l))
	if at < 0 {
		return len(text), len(text)
	}
	return i + at, i + at + len(l)
}
