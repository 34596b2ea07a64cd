package tokenizer

import (
	"strings"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/bpe"
)

// kind says what is particular about a token.
type kind uint8

const (
	control   kind = 1 << iota // an order to the model; left out of text
	added                      // matched as a whole, before the model sees the text
	whole                      // its bytes are valid UTF-8 on their own
	byteKind                   // <0x41>: one byte of a character that has no token
	blankKind                  // its blanks are blanks, not marks
)

// vocabulary holds the bytes and the kind of each token.
type vocabulary struct {
	texts bpe.Texts
	kinds []kind
}

func (v *vocabulary) text(id sequence.Token) string { return v.texts.At(id) }

// bytes is what a token stands for in text.
func (v *vocabulary) bytes(id sequence.Token) string {
	if v.kind(id)&byteKind != 0 {
		return string([]byte{v.byte(id)})
	}
	return v.text(id)
}

// byte is what a token of byteKind stands for.
func (v *vocabulary) byte(id sequence.Token) byte {
	b, _ := bpe.ByteToken(v.text(id))
	return b
}

func (v *vocabulary) kind(id sequence.Token) kind {
	if uint64(id) >= uint64(len(v.kinds)) {
		return 0
	}
	return v.kinds[id]
}

func newVocabulary(texts []string) vocabulary {
	v := vocabulary{kinds: make([]kind, len(texts))}
	v.texts.Ends = make([]uint32, len(texts))
	var all strings.Builder
	for id, text := range texts {
		all.WriteString(text)
		v.texts.Ends[id] = uint32(all.Len())
		if utf8.ValidString(text) {
			v.kinds[id] = whole
		}
	}
	v.texts.All = all.String()
	return v
}

// byteAlphabet writes each byte as one printable character, as GPT-2 introduced
// it: printable Latin-1 stands for itself, the rest follows from U+0100 on.
type byteAlphabet [256]rune

func newByteAlphabet() (a byteAlphabet) {
	next := rune(0x100)
	for b := range a {
		r := rune(b)
		printable := '!' <= r && r <= '~' || '¡' <= r && r <= '¬' || '®' <= r && r <= 'ÿ'
		if !printable {
			r, next = next, next+1
		}
		a[b] = r
	}
	return a
}

// decoder returns a function from the alphabet's text to bytes. Text that is not
// of the alphabet stays as it is, as in the reference.
func (a byteAlphabet) decoder() func(string) string {
	bytes := make([]int16, 0x100+len(a)) // -1: not of the alphabet
	for i := range bytes {
		bytes[i] = -1
	}
	for b, r := range a {
		bytes[r] = int16(b)
	}
	return func(text string) string {
		raw := make([]byte, 0, len(text))
		for _, r := range text {
			if int(r) >= len(bytes) || bytes[r] < 0 {
				return text
			}
			raw = append(raw, byte(bytes[r]))
		}
		return string(raw)
	}
}
