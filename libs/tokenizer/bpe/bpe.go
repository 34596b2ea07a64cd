// Package bpe turns pieces of text into the tokens of a byte-pair encoding: always the pair
// that was learnt first is merged, of equal ones the leftmost, as in Hugging Face's library.
//
// Symbols, which merges start from, are bytes or characters. A byte that has no token is
// dropped, and its neighbours may merge. A character that has none becomes the tokens of
// its bytes, or the unknown token, or is dropped, as the model says.
//
// The package neither cuts text into pieces nor knows special tokens. A Model is immutable
// and safe for concurrent use; a Scratch belongs to one goroutine. It starts no goroutine.
package bpe

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// NoToken is no token's id.
const NoToken = math.MaxUint32

// Bounds of a model, of which tables are made.
const (
	MaxTokens = 1<<20 - 1
	maxMerges = 1<<24 - 1
)

// Model is a vocabulary with its merges.
type Model struct {
	texts    Texts
	symbols  symbols
	pairs    pairs
	words    words
	meetings meetings
	plain    bool // nothing is ever merged
}

// New builds a model. The texts of tokens are raw bytes, by id; hidden ones are never made,
// whatever merges to them. Bytewise models merge bytes, others characters. Errors name the element.
func New(m *spec.BPE, texts Texts, hidden func(id uint32) bool, bytewise bool) (*Model, error) {
	if texts.Len() > MaxTokens || len(m.Merges) > maxMerges {
		return nil, fmt.Errorf("model has %d tokens and %d merges, want at most %d and %d", texts.Len(), len(m.Merges), MaxTokens, maxMerges)
	}
	out := &Model{texts: texts, plain: len(m.Merges) == 0 && !m.IgnoreMerges}
	if err := out.symbols.build(m, texts, hidden, bytewise); err != nil {
		return nil, err
	}
	odd, err := out.checkMerges(m.Merges)
	if err != nil {
		return nil, err
	}
	out.pairs.build(m.Merges, hidden)
	out.meetings.build(out, odd, m.IgnoreMerges)
	if bytewise {
		out.symbols.wholes = newWholes(out, m.Merges)
	}
	out.words.build(out, hidden, m.IgnoreMerges)
	return out, nil
}

// checkMerges wants the text of a merge's result to be that of its parts. odd says that a
// token of an unknown character or of a byte is merged, whose text is not its character.
func (m *Model) checkMerges(merges []spec.Merge) (odd bool, err error) {
	n := uint32(m.texts.Len())
	strange := m.symbols.strange()
	for i, merge := range merges {
		if merge.Left >= n || merge.Right >= n || merge.Result >= n {
			return false, fmt.Errorf("model.merges[%d] is (%d, %d) to %d, want ids below %d", i, merge.Left, merge.Right, merge.Result, n)
		}
		left, right, result := m.texts.At(merge.Left), m.texts.At(merge.Right), m.texts.At(merge.Result)
		if len(left)+len(right) != len(result) || result[:len(left)] != left || result[len(left):] != right {
			return false, fmt.Errorf("model.merges[%d] is %q and %q to %q, want their join", i, left, right, result)
		}
		odd = odd || strange[merge.Left] || strange[merge.Right]
	}
	return odd, nil
}

// symbols says what text is made of before anything is merged.
type symbols struct {
	bytewise bool
	bytes    [256]uint32 // the token of a byte; of a character's byte in models of characters; or NoToken
	pages    []uint16    // of a character: the page of its token; nil in bytewise models
	tokens   []uint32    // pages of 1<<pageBits
	unk      uint32      // or NoToken
	fuse     bool
	fallback bool
	atoms    []bool // tokens that are symbols by themselves
	wholes   wholes
}

const (
	pageBits  = 7
	pageRunes = 1 << pageBits
)

func (s *symbols) build(m *spec.BPE, texts Texts, hidden func(id uint32) bool, bytewise bool) error {
	s.bytewise, s.fuse, s.fallback, s.unk = bytewise, m.FuseUnk, m.ByteFallback, NoToken
	s.atoms = make([]bool, texts.Len())
	if m.Unk >= 0 {
		if m.Unk >= texts.Len() {
			return fmt.Errorf("model.unk_token is token %d, want less than %d", m.Unk, texts.Len())
		}
		s.unk = uint32(m.Unk)
		s.atoms[m.Unk] = true
	}
	for i := range s.bytes {
		s.bytes[i] = NoToken
	}
	if bytewise {
		s.buildBytes(texts, hidden) // where there are none, text has no tokens
		return nil
	}
	if m.ByteFallback {
		s.buildFallback(m)
	}
	s.buildCharacters(texts, hidden)
	return nil
}

func (s *symbols) buildBytes(texts Texts, hidden func(id uint32) bool) {
	for id := range texts.Len() {
		if text := texts.At(uint32(id)); len(text) == 1 && s.bytes[text[0]] == NoToken && !hidden(uint32(id)) {
			s.bytes[text[0]] = uint32(id)
			s.atoms[id] = true
		}
	}
}

func (s *symbols) buildFallback(m *spec.BPE) {
	for id, text := range m.Vocab {
		if b, ok := ByteToken(text); ok {
			s.bytes[b] = uint32(id)
			s.atoms[id] = true
		}
	}
}

// ByteToken reads <0x41>, the token of a byte.
func ByteToken(text string) (b byte, ok bool) {
	if len(text) != len("<0x00>") || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	const digits = "0123456789ABCDEF"
	for _, c := range []byte(text[3:5]) {
		at := -1
		for i := range digits {
			if digits[i] == c {
				at = i
			}
		}
		if at < 0 {
			return 0, false
		}
		b = b<<4 | byte(at)
	}
	return b, true
}

func (s *symbols) buildCharacters(texts Texts, hidden func(id uint32) bool) {
	s.pages = make([]uint16, (utf8.MaxRune+1)>>pageBits)
	s.tokens = make([]uint32, pageRunes) // page 0 has none
	for i := range s.tokens {
		s.tokens[i] = NoToken
	}
	for id := range texts.Len() {
		text := texts.At(uint32(id))
		r, n := utf8.DecodeRuneInString(text)
		if n == 0 || n != len(text) || s.atoms[id] || r == utf8.RuneError && n == 1 || hidden(uint32(id)) {
			continue
		}
		page := &s.pages[r>>pageBits]
		if *page == 0 {
			*page = uint16(len(s.tokens) >> pageBits)
			s.tokens = append(s.tokens, s.tokens[:pageRunes]...)
		}
		slot := &s.tokens[int(*page)<<pageBits|int(r)&(pageRunes-1)]
		if *slot != NoToken {
			continue
		}
		*slot = uint32(id)
		s.atoms[id] = true
	}
}

// fallsBack reports whether a character that has no token becomes those of its bytes.
func (s *symbols) fallsBack(character string) bool {
	if !s.fallback {
		return false
	}
	for i := range len(character) {
		if s.bytes[character[i]] == NoToken {
			return false
		}
	}
	return true
}

// strange lists the symbols whose text is not their character.
func (s *symbols) strange() map[uint32]bool {
	out := map[uint32]bool{}
	if s.bytewise {
		return out
	}
	out[s.unk] = true
	for _, id := range s.bytes {
		out[id] = true
	}
	return out
}

// token is the symbol of a character, or NoToken.
func (s *symbols) token(r rune) uint32 {
	return s.tokens[int(s.pages[r>>pageBits])<<pageBits|int(r)&(pageRunes-1)]
}

// append adds the symbols of text.
func (s *symbols) append(dst []uint32, text string) []uint32 {
	if !s.bytewise {
		return s.appendCharacters(dst, text)
	}
	for i := 0; i < len(text); {
		r, n := decode(text, i)
		if n > 1 && s.wholes.pages != nil {
			if id, ok := s.wholes.find(text, i, r, n); ok {
				dst = append(dst, id)
				i += n
				continue
			}
		}
		for end := i + n; i < end; i++ {
			if id := s.bytes[text[i]]; id != NoToken {
				dst = append(dst, id)
			}
		}
	}
	return dst
}

// decode is the character at a byte of valid UTF-8.
func decode(text string, i int) (r rune, n int) {
	b := text[i]
	switch {
	case b < utf8.RuneSelf:
		return rune(b), 1
	case b < 0xe0:
		return rune(b&0x1f)<<6 | rune(text[i+1]&0x3f), 2
	case b < 0xf0:
		return rune(b&0x0f)<<12 | rune(text[i+1]&0x3f)<<6 | rune(text[i+2]&0x3f), 3
	}
	return rune(b&0x07)<<18 | rune(text[i+1]&0x3f)<<12 | rune(text[i+2]&0x3f)<<6 | rune(text[i+3]&0x3f), 4
}

func (s *symbols) appendCharacters(dst []uint32, text string) []uint32 {
	fused := false // the last symbol is an unknown that takes more in
	for i := 0; i < len(text); {
		r, n := decode(text, i)
		id := s.token(r)
		switch {
		case id != NoToken:
			dst, fused = append(dst, id), false
		case s.fallsBack(text[i : i+n]):
			for j := i; j < i+n; j++ {
				dst = append(dst, s.bytes[text[j]])
			}
			fused = false
		case s.unk != NoToken && !(fused && s.fuse):
			dst, fused = append(dst, s.unk), true
		}
		i += n
	}
	return dst
}

// span is how many of the symbols a token was merged from, which is the first of them or
// begins with it.
func (m *Model) span(id uint32, symbols []uint32) int {
	if m.symbols.atoms[id] && symbols[0] == id {
		return 1
	}
	n := 0
	for bytes := len(m.texts.At(id)); bytes > 0; n++ {
		bytes -= len(m.texts.At(symbols[n]))
	}
	return n
}

// spanBefore is span for the last of the symbols.
func (m *Model) spanBefore(id uint32, symbols []uint32) int {
	if m.symbols.atoms[id] && symbols[len(symbols)-1] == id {
		return 1
	}
	n := 0
	for bytes := len(m.texts.At(id)); bytes > 0; n++ {
		bytes -= len(m.texts.At(symbols[len(symbols)-1-n]))
	}
	return n
}
