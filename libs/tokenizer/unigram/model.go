// Package unigram encodes text with a unigram language model, which takes the most probable of all ways
// to write a text as pieces (Kudo 2018). It is exact against the reference (Hugging Face tokenizers
// 0.22.2), down to ties and the order of floating-point additions. Normalizing the text and
// splitting it are not its concern.
//
// A Model is read-only after New, for any number of goroutines; the package starts none.
package unigram

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

const (
	// maxPieceBytes bounds how far the search looks ahead from each character.
	maxPieceBytes = 4096
	// maxVocabBytes bounds the memory of the trie, which takes some 12 bytes for each, and twice that
	// while it is built. The largest vocabularies have 3 MB.
	maxVocabBytes = 16 << 20
	maxPieces     = 1 << 22
	// unkPenalty is how much less probable a character without a piece is than every piece.
	unkPenalty = 10
)

// Model is a unigram language model.
type Model struct {
	trie     *trie
	scores   []float64
	unk      int
	unkScore float64
	// bytes are the pieces <0x00> to <0xFF>; -1 for one that is missing. It is nil without byte fallback.
	bytes []int32
}

// New builds a model. Its errors name what is wrong as tokenizer.json does: "model.vocab[3]".
func New(m *spec.Unigram) (*Model, error) {
	if len(m.Pieces) == 0 {
		return nil, errors.New("model.vocab: it is empty")
	}
	if len(m.Pieces) > maxPieces {
		return nil, fmt.Errorf("model.vocab: %d pieces are more than %d", len(m.Pieces), maxPieces)
	}
	if m.Unk < -1 || m.Unk >= len(m.Pieces) {
		return nil, fmt.Errorf("model.unk_id: %d is not in the vocabulary of %d pieces", m.Unk, len(m.Pieces))
	}
	scores := make([]float64, len(m.Pieces))
	least, total := math.Inf(1), 0
	for id, p := range m.Pieces {
		if err := check(p); err != nil {
			return nil, fmt.Errorf("model.vocab[%d]: %w", id, err)
		}
		if total += len(p.Text); total > maxVocabBytes {
			return nil, fmt.Errorf("model.vocab[%d]: the pieces up to here have more than %d bytes", id, maxVocabBytes)
		}
		scores[id] = p.Score
		least = min(least, p.Score)
	}
	u := &Model{trie: newTrie(m.Pieces), scores: scores, unk: m.Unk, unkScore: least - unkPenalty}
	if m.ByteFallback {
		u.bytes = make([]int32, 256)
		for b := range u.bytes {
			u.bytes[b] = u.trie.find(fmt.Sprintf("<0x%02X>", b))
		}
	}
	return u, nil
}

func check(p spec.Piece) error {
	switch {
	case len(p.Text) > maxPieceBytes:
		return fmt.Errorf("the piece has %d bytes, more than %d", len(p.Text), maxPieceBytes)
	case !utf8.ValidString(p.Text):
		return fmt.Errorf("the piece %q is not UTF-8", p.Text)
	case math.IsNaN(p.Score) || math.IsInf(p.Score, 0):
		return fmt.Errorf("the score of %q is %v", p.Text, p.Score)
	}
	return nil
}
