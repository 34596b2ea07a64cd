package oracle

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// vocabulary is the tokens of a model, to join them at random.
type vocabulary struct {
	size  int
	words []string
	// bytes are the tokens of single bytes and characters, whose order decides what decodes to characters.
	bytes, added []uint32
}

func newVocabulary(model *spec.Tokenizer) *vocabulary {
	v := &vocabulary{}
	texts := tokenTexts(model)
	byteLevel := slices.ContainsFunc(model.Decoder, func(s spec.Step) bool { return s.Type == "ByteLevel" })
	v.size = len(texts)
	for id, text := range texts {
		if utf8.RuneCountInString(text) == 1 || strings.HasPrefix(text, "<0x") {
			v.bytes = append(v.bytes, uint32(id))
		}
		if text = plain(text, byteLevel); text != "" && utf8.ValidString(text) {
			v.words = append(v.words, text)
		}
	}
	for _, t := range model.Added {
		v.added = append(v.added, t.ID)
		v.size = max(v.size, int(t.ID)+1)
	}
	return v
}

func tokenTexts(model *spec.Tokenizer) []string {
	if model.BPE != nil {
		return model.BPE.Vocab
	}
	var out []string
	for _, piece := range model.Unigram.Pieces {
		out = append(out, piece.Text)
	}
	return out
}

// plain gives the text that a token stands for.
func plain(token string, byteLevel bool) string {
	if !byteLevel {
		return strings.ReplaceAll(token, "▁", " ")
	}
	var out []byte
	for _, r := range token {
		b, ok := byteOf()[r]
		if !ok {
			return ""
		}
		out = append(out, b)
	}
	return string(out)
}

// byteOf is the alphabet of GPT-2: bytes that show are themselves, the others follow from U+0100 on.
var byteOf = sync.OnceValue(func() map[rune]byte {
	out, next := map[rune]byte{}, rune(0x100)
	for b := range rune(256) {
		if '!' <= b && b <= '~' || '¡' <= b && b <= '¬' || '®' <= b {
			out[b] = byte(b)
			continue
		}
		out[next] = byte(b)
		next++
	}
	return out
})

// texts are tokens joined at random, to what they never were together.
func (v *vocabulary) texts(block int) []string {
	r := corpus.NewRandom(uint64(8000 + block))
	return times(40, func() string {
		var out strings.Builder
		for range 1 + r.Below(600) {
			out.WriteString(corpus.Pick(r, v.words))
		}
		return out.String()
	})
}

// tokens are sequences of tokens at random, and some that the vocabulary does not have.
func (v *vocabulary) tokens(block int) [][]uint32 {
	r := corpus.NewRandom(uint64(9000 + block))
	out := make([][]uint32, 500)
	for i := range out {
		for range r.Below(40) {
			out[i] = append(out[i], v.token(r))
		}
	}
	return out
}

func (v *vocabulary) token(r *corpus.Random) uint32 {
	switch r.Below(16) {
	case 0, 1:
		if len(v.added) > 0 {
			return corpus.Pick(r, v.added)
		}
	case 2, 3, 4, 5, 6, 7:
		return corpus.Pick(r, v.bytes)
	case 8:
		if r.Below(20) == 0 {
			return uint32(v.size + r.Below(100))
		}
	}
	return uint32(r.Below(v.size))
}
