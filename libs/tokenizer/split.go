package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/gguf"
)

// splitter cuts text into the pieces that merges never cross. It does by hand what
// the reference does by the regular expression of GPT-2,
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// in linear time; with singleDigits each number character is cut out before, so
// that the expression sees the text between numbers on its own.
type splitter struct {
	classes      classes
	singleDigits bool
}

func newSplitter(f *gguf.File) (splitter, error) {
	const key = "tokenizer.ggml.pre"
	pre, err := f.String(key)
	if err != nil {
		return splitter{}, err
	}
	digits := []string{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
	plain := []string{"gpt-2", "mpt", "olmo", "jais", "phi-2"}
	single := slices.Contains(digits, pre)
	if !single && !slices.Contains(plain, pre) {
		return splitter{}, fmt.Errorf("metadata %q is %q, want one of %s", key, pre, strings.Join(append(digits, plain...), ", "))
	}
	return splitter{classes: newClasses(), singleDigits: single}, nil
}

// class of the character at byte i of text, and its length in bytes.
func (s *splitter) class(text string, i int) (c class, bytes int) {
	if b := text[i]; b < utf8.RuneSelf {
		return s.classes[b], 1
	}
	r, n := utf8.DecodeRuneInString(text[i:])
	return s.classes.of(r), n
}

// run is the end of the run of characters of a class that starts at byte i.
func (s *splitter) run(text string, i int, of class) int {
	for i < len(text) {
		c, n := s.class(text, i)
		if c != of {
			break
		}
		i += n
	}
	return i
}

// next is the end of the piece that starts at byte i of text; i is below len(text).
func (s *splitter) next(text string, i int) int {
	c, n := s.class(text, i)
	switch {
	case c == classNumber && s.singleDigits:
		return i + n
	case c == classSpace:
		return s.afterSpace(text, i, n)
	case text[i] == '\'':
		if n := contraction(text[i+1:]); n > 0 {
			return i + 1 + n
		}
	}
	return s.run(text, i+n, c)
}

// afterSpace ends a piece that starts with a white space of n bytes: the word
// that a single blank leads, or white space but for the blank that leads a word.
func (s *splitter) afterSpace(text string, i, n int) int {
	if text[i] == ' ' && i+1 < len(text) {
		c, m := s.class(text, i+1)
		switch {
		case c == classSpace:
		case c == classNumber && s.singleDigits:
			return i + 1
		default:
			return s.run(text, i+1+m, c)
		}
	}
	last, end := i, i+n
	for end < len(text) {
		c, m := s.class(text, end)
		if c != classSpace {
			break
		}
		last, end = end, end+m
	}
	if end == len(text) || last == i {
		return end // nothing follows, or there is nothing to leave to it
	}
	if c, _ := s.class(text, end); c == classNumber && s.singleDigits {
		return end // the number is cut out beforehand: nothing follows
	}
	return last
}

// contraction is the length of an English suffix at the start of text, after its apostrophe; 0 for none.
func contraction(text string) int {
	if text == "" {
		return 0
	}
	switch text[0] {
	case 's', 't', 'm', 'd':
		return 1
	case 'r', 'v':
		if len(text) > 1 && text[1] == 'e' {
			return 2
		}
	case 'l':
		if len(text) > 1 && text[1] == 'l' {
			return 2
		}
	}
	return 0
}
