// Package normalize changes text as the normalizers of a tokenizer file say, before it is split
// and matched. It is exact against the reference (Hugging Face tokenizers 0.22.2), with its
// versions of Unicode: 9 for the normal forms and accents, 16 for graphemes and 17 for lower case.
// That is why neither golang.org/x/text nor package unicode serve here.
//
// Text that is normal already, as most is, costs one look at memory speed for ASCII. A Chain is
// read-only after New, for any number of goroutines; the package starts none.
package normalize

import (
	"fmt"
	"unicode/utf8"
	"unsafe"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// Chain is a list of normalizers, each of which gets what the one before it gives.
type Chain struct{ steps []step }

// step is a normalizer. A scratch is its to use during the call.
type step interface {
	// same reports whether append would give the text itself; it may say false though it would.
	same(text string) bool
	append(dst []byte, text string, s *scratch) []byte
	// appendAligned also appends, for each byte, the byte of text whose source it shares.
	appendAligned(dst []byte, from []uint32, text string, s *scratch) ([]byte, []uint32)
}

// Span is a range of bytes of a text.
type Span struct{ Start, End uint32 }

// New builds the chain of the steps. Its errors name the path and the type of a step that is
// unknown or broken.
func New(steps []spec.Step) (*Chain, error) {
	c := &Chain{}
	grown := 1
	for i := range steps {
		s, err := newStep(&steps[i])
		if err == nil && s != nil {
			grown, err = checkGrowth(grown, &steps[i], s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", steps[i].Path, steps[i].Type, err)
		}
		if s != nil {
			c.steps = append(c.steps, s)
		}
	}
	return c, nil
}

// newStep returns nil for a step that does nothing.
func newStep(s *spec.Step) (step, error) {
	switch s.Type {
	case "NFC", "NFD", "NFKC", "NFKD":
		return newForm(s.Type), nil
	case "Nmt":
		return newNmt(), nil
	case "Lowercase":
		return newLowercase(), nil
	case "StripAccents":
		return newStripAccents(), nil
	case "Strip":
		return &strip{left: s.Left != 0, right: s.Right != 0}, nil
	case "Prepend":
		if s.Content == "" {
			return nil, nil
		}
		return prepend(s.Content), nil
	case "Replace":
		return newReplace(s)
	case "Precompiled":
		return newPrecompiled(s.Charsmap)
	}
	return nil, fmt.Errorf("this normalizer is not supported")
}

// Empty reports whether the chain has no steps.
func (c *Chain) Empty() bool { return len(c.steps) == 0 }

// Same reports whether Append would give text itself. It is quick, and may say false though
// Append would.
func (c *Chain) Same(text string) bool {
	for _, s := range c.steps {
		if !s.same(text) {
			return false
		}
	}
	return true
}

// Append appends the normalized text to dst. Text is valid UTF-8.
func (c *Chain) Append(dst []byte, text string) []byte {
	if len(c.steps) == 0 {
		return append(dst, text...)
	}
	s := newScratch()
	defer s.free()
	return c.append(dst, text, s)
}

func (c *Chain) append(dst []byte, text string, s *scratch) []byte {
	last := len(c.steps) - 1
	for _, step := range c.steps[:last] {
		if step.same(text) {
			continue
		}
		buf := s.nextText()
		*buf = step.append((*buf)[:0], text, s)
		text = view(*buf)
	}
	return c.steps[last].append(dst, text, s)
}

// AppendAligned appends the normalized text to dst, and to spans for each of its bytes the
// range of the bytes of text that it comes from, as the reference sees it: that of one
// character, whatever happened to those around it. The offsets of a token are from the start of
// its first to the end of its last byte. Text is below 4 GiB. This is for callers who ask for
// offsets; it costs several times as much as Append.
func (c *Chain) AppendAligned(dst []byte, spans []Span, text string) ([]byte, []Span) {
	s := newScratch()
	defer s.free()
	source := text
	// from has the byte of the source for each byte of text; nil while they are equal.
	var from []uint32
	for _, step := range c.steps {
		if step.same(text) {
			continue
		}
		buf := s.nextText()
		var next []uint32
		*buf, next = step.appendAligned((*buf)[:0], make([]uint32, 0, len(text)+len(text)/4), text, s)
		if from != nil {
			for j, at := range next {
				next[j] = from[at]
			}
		}
		text, from = view(*buf), next
	}
	for i := range len(text) {
		at := i
		if from != nil {
			at = int(from[i])
		}
		spans = append(spans, spanAt(source, at))
	}
	return append(dst, text...), spans
}

// spanAt returns the range of the character that has byte i of text.
func spanAt(text string, i int) Span {
	for i > 0 && !utf8.RuneStart(text[i]) {
		i--
	}
	_, n := utf8.DecodeRuneInString(text[i:])
	return Span{Start: uint32(i), End: uint32(i + n)}
}

// view returns b as a string without a copy, for as long as b stays as it is.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
