package chattemplate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// How the bytes of a chat are told from those of the template: the chat is rendered
// a second time with its characters replaced by others that cannot occur, one
// for one (maskRune); where the second text differs from the first by exactly that, the
// character came out of the chat. Filters such as trim work on both alike. If the
// texts do not match, since the template compares or converts what was replaced, fewer
// characters are: level by level, down to the texts of control tokens alone.
//
// What it cannot tell: white space, digits that a template computes, and characters
// above U+1FFFF are taken for the template's (none of them is a control token). On
// the lower levels so is all but the first and last characters of control
// tokens, which is enough to keep a chat from beginning or ending one. A template that
// looks even at those, in a chat that holds them, is an error and no guess.
type level int

const (
	maskAll   level = iota // all but white space
	maskEdges              // the first and last characters of control texts
	maskTexts              // control texts only, as a whole
	maskLevels
)

// maskRune moves a character to the private use planes 15 and 16.
const maskRune = 0xF0000

// mask replaces characters of a chat. A nil mask replaces none.
type mask struct {
	level level
	t     *Template
}

func edges(controlTexts []string) map[rune]bool {
	out := map[rune]bool{}
	for _, text := range controlTexts {
		first, _ := utf8.DecodeRuneInString(text)
		last, _ := utf8.DecodeLastRuneInString(text)
		out[first], out[last] = true, true
	}
	return out
}

func (m *mask) text(s string) string {
	switch {
	case m == nil:
		return s
	case m.level == maskAll:
		return replace(s, func(r rune) bool { return !unicode.IsSpace(r) })
	case m.level == maskEdges:
		return m.key(s)
	}
	for _, text := range m.t.opts.ControlTexts {
		s = strings.ReplaceAll(s, text, replace(text, func(r rune) bool { return true }))
	}
	return s
}

// key masks the name of a field. Templates ask for fields by name, so only the
// characters that matter are ever replaced.
func (m *mask) key(s string) string {
	if m == nil {
		return s
	}
	return replace(s, func(r rune) bool { return m.t.edges[r] })
}

// role leaves the roles that templates know, which are safe to print.
func (m *mask) role(s string) string {
	known := []string{"system", "developer", "user", "assistant", "tool", "function"}
	if slices.Contains(known, s) {
		return s
	}
	return m.text(s)
}

func replace(s string, which func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if r+maskRune <= unicode.MaxRune && which(r) {
			return r + maskRune
		}
		return r
	}, s)
}

// trace splits text, the rendering of in, into what is the template's and what the chat's.
// steps is what that rendering took.
func (t *Template) trace(ctx context.Context, in Input, text string, steps int) ([]tokenizer.Segment, error) {
	if len(t.opts.ControlTexts) == 0 {
		return []tokenizer.Segment{{Text: text, Trusted: true}}, nil
	}
	limits := t.opts.Limits
	limits.Bytes *= utf8.UTFMax
	limits.Steps = 2*steps + 1000 // a template that looks at what was replaced may run wild
	for l := range maskLevels {
		masked, _, err := t.run(ctx, in, &mask{l, t}, limits)
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			continue // the template refuses what was replaced: it looks at it
		}
		if segments, ok := compare(text, masked); ok {
			return segments, nil
		}
	}
	return nil, errors.New("chat template: the chat holds the text of control tokens, and the template decides by it")
}

// compare walks a text and its masked twin. ok is false when they differ by more
// than the mask. White space between two words of the chat counts as the chat's: it
// is no control token by itself, and one segment is cheaper than many.
func compare(text, masked string) (segments []tokenizer.Segment, ok bool) {
	at, start, trusted := 0, 0, true
	space := -1 // where white space began that follows a word of the chat
	flush := func(end int) {
		if end > start {
			segments = append(segments, tokenizer.Segment{Text: text[start:end], Trusted: trusted})
		}
		start, trusted, space = end, !trusted, -1
	}
	for at < len(text) {
		r, n := utf8.DecodeRuneInString(text[at:])
		twin, twinBytes := utf8.DecodeRuneInString(masked)
		if twinBytes == 0 || twin != r && twin != r+maskRune {
			return nil, false
		}
		switch ofChat := twin != r; {
		case ofChat && trusted:
			flush(at)
		case ofChat:
			space = -1
		case trusted:
		case unicode.IsSpace(r):
			if space < 0 {
				space = at
			}
		case space >= 0:
			flush(space)
		default:
			flush(at)
		}
		at, masked = at+n, masked[twinBytes:]
	}
	if space >= 0 {
		flush(space)
	}
	flush(at)
	return segments, masked == ""
}
