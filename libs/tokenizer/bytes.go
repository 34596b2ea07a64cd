package tokenizer

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// ByteTokens is the vocabulary of Bytes: one token per byte, then the control tokens.
const ByteTokens = 256 + 3

// Bytes returns the tokenizer of a vocabulary without any file, for engines that know no
// text: token b is the byte b, and the last three are the control tokens <|im_start|>,
// <|im_end|> and <|endoftext|>, the latter two of which end a generation.
func Bytes() *Tokenizer {
	controls := []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>"}
	t := &Tokenizer{scratch: sync.Pool{New: func() any { return new(scratch) }}, single: true, ends: []sequence.Token{257, 258}}
	v := &t.vocab
	v.ends, v.kinds, v.whole = make([]uint32, ByteTokens), make([]tokenKind, ByteTokens), make([]bool, ByteTokens)
	var all strings.Builder
	for id := range ByteTokens {
		v.kinds[id], v.whole[id] = kindNormal, id < utf8.RuneSelf
		if id < 256 {
			all.WriteByte(byte(id))
		} else {
			v.kinds[id], v.whole[id] = kindControl, true
			all.WriteString(controls[id-256])
		}
		v.ends[id] = uint32(all.Len())
	}
	v.all = all.String()
	t.added = newMatcher(v)
	return t
}

// appendBytes appends the tokens of a text in which each byte is one.
func appendBytes(dst []sequence.Token, text string) []sequence.Token {
	for i := range len(text) {
		dst = append(dst, sequence.Token(text[i]))
	}
	return dst
}
