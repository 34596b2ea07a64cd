package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// tokenKind is the type of a token, numbered as in GGUF.
type tokenKind uint8

const (
	kindNormal      tokenKind = 1
	kindUnknown     tokenKind = 2
	kindControl     tokenKind = 3
	kindUserDefined tokenKind = 4 // matched in any text, like a control token in trusted text
	kindUnused      tokenKind = 5
)

// vocabulary holds the bytes and the kind of each token.
type vocabulary struct {
	all   string   // the bytes of all tokens
	ends  []uint32 // token id ends at ends[id] of all, and starts where id-1 ends
	kinds []tokenKind
	whole []bool // the bytes are valid UTF-8 on their own
}

func (v *vocabulary) text(id sequence.Token) string {
	if int64(id) >= int64(len(v.ends)) {
		return ""
	}
	start := uint32(0)
	if id > 0 {
		start = v.ends[id-1]
	}
	return v.all[start:v.ends[id]]
}

func (v *vocabulary) kind(id sequence.Token) tokenKind {
	if int64(id) >= int64(len(v.kinds)) {
		return kindUnused
	}
	return v.kinds[id]
}

// load reads the tokens; ids maps their text as it is in the file.
func (v *vocabulary) load(f *gguf.File) (ids map[string]sequence.Token, err error) {
	const tokensKey, typesKey = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
	texts, err := f.Strings(tokensKey)
	if err != nil {
		return nil, err
	}
	kinds := make([]int64, 0)
	if f.Has(typesKey) {
		if kinds, err = f.Ints(typesKey); err != nil {
			return nil, err
		}
		if len(kinds) != len(texts) {
			return nil, fmt.Errorf("metadata %q has %d elements, want one for each of the %d tokens", typesKey, len(kinds), len(texts))
		}
	}
	decode := newByteAlphabet().decoder()
	ids = make(map[string]sequence.Token, len(texts))
	var all strings.Builder
	v.ends, v.kinds, v.whole = make([]uint32, len(texts)), make([]tokenKind, len(texts)), make([]bool, len(texts))
	for i, text := range texts {
		if first, twice := ids[text]; twice {
			return nil, fmt.Errorf("metadata %q: %q is both token %d and %d", tokensKey, text, first, i)
		}
		ids[text] = sequence.Token(i)
		v.kinds[i] = kindNormal
		if len(kinds) > 0 {
			v.kinds[i] = tokenKind(min(max(kinds[i], 0), 255))
		}
		raw := text
		if v.kinds[i] == kindNormal {
			raw = decode(text)
		}
		all.WriteString(raw)
		v.ends[i] = uint32(all.Len())
		v.whole[i] = utf8.ValidString(raw)
	}
	v.all = all.String()
	return ids, nil
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
