// Package oracle compares tokenizers with Hugging Face's: it makes inputs that leave little out,
// the same ones everywhere, and has a hash of the reference's answer for each block of them. It is
// for tests; the command record asks the reference. It starts no goroutine.
//
// The reference is given text in which every byte that is no UTF-8 is U+FFFD, as it takes no other.
package oracle

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// Set is a kind of inputs, in blocks, which can be had in any order.
type Set struct {
	Name   string
	Blocks int
	// Texts gives the inputs of a block to encode; Tokens those to decode. One of them is nil.
	Texts  func(block int) []string
	Tokens func(block int) [][]uint32
}

// BlockName names a block in recordings and reports.
func BlockName(set string, block int) string { return fmt.Sprintf("%s/%d", set, block) }

// Sets gives all the inputs for a model.
func Sets(texts *corpus.Texts, model *spec.Tokenizer) ([]Set, error) {
	prose, err := proseSets(texts)
	if err != nil {
		return nil, err
	}
	v := newVocabulary(model)
	sets := append(prose,
		Set{Name: "vocabulary", Blocks: 32, Texts: v.texts},
		Set{Name: "added", Blocks: 20, Texts: newAdded(model.Added).texts},
		unicodeSet(),
		Set{Name: "emoji", Blocks: 20, Texts: emojiTexts},
		Set{Name: "blanks", Blocks: 10, Texts: blankTexts},
		Set{Name: "numbers", Blocks: 5, Texts: numberTexts},
		Set{Name: "contractions", Blocks: 5, Texts: contractionTexts},
		Set{Name: "marks", Blocks: 10, Texts: markTexts},
		Set{Name: "runs", Blocks: 4, Texts: runTexts},
		Set{Name: "random", Blocks: 100, Texts: randomTexts},
		Set{Name: "decode", Blocks: 20, Tokens: v.tokens},
	)
	return append(sets, invalidSet(prose)), nil
}

// Sample makes a single block of some of each set, spread over it.
func Sample(sets []Set, blocks int) (out []Set) {
	for _, set := range sets {
		n := min(blocks, set.Blocks)
		sample := Set{Name: set.Name, Blocks: 1}
		if set.Texts != nil {
			sample.Texts = func(int) []string { return gather(n, set.Blocks, set.Texts) }
		} else {
			sample.Tokens = func(int) [][]uint32 { return gather(n, set.Blocks, set.Tokens) }
		}
		out = append(out, sample)
	}
	return out
}

func gather[T any](n, of int, block func(int) []T) (out []T) {
	for i := range n {
		out = append(out, block(i*of/n)...)
	}
	return out
}

// Hash is over answers, one after the other.
type Hash struct {
	sum xxh3.Hasher
	buf []byte
}

// Tokens adds the tokens of a text.
func (h *Hash) Tokens(tokens []uint32) {
	h.buf = binary.LittleEndian.AppendUint32(h.buf[:0], uint32(len(tokens)))
	for _, token := range tokens {
		h.buf = binary.LittleEndian.AppendUint32(h.buf, token)
	}
	h.sum.Write(h.buf) //nolint:errcheck // it has no errors
}

// Text adds the text of some tokens.
func (h *Hash) Text(text string) {
	h.buf = binary.LittleEndian.AppendUint32(h.buf[:0], uint32(len(text)))
	h.sum.Write(h.buf)      //nolint:errcheck // it has no errors
	h.sum.WriteString(text) //nolint:errcheck // it has no errors
}

// Sum is the hash of all that was added.
func (h *Hash) Sum() uint64 { return h.sum.Sum64() }
