package hfjson

import (
	"fmt"
	"hash/maphash"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

func (m *model) unigram(out *spec.Tokenizer) (*vocabulary, error) {
	o := &m.options
	if m.pieces == nil {
		o.fail("vocab", "is missing: want an array of pieces and their scores")
	}
	u := &spec.Unigram{Pieces: m.pieces, Unk: -1, ByteFallback: o.option("byte_fallback", false)}
	if _, ok := o.value("unk_id"); ok {
		u.Unk = o.count("unk_id")
		if u.Unk >= len(u.Pieces) {
			o.fail("unk_id", "is %d, want less than the vocabulary's %d", u.Unk, len(u.Pieces))
		}
	}
	if m.hasMerges || m.early != nil {
		o.fail("merges", "is there, but a Unigram has none")
	}
	if err := o.close(); err != nil {
		return nil, err
	}
	out.Unigram = u
	v := &vocabulary{texts: make([]string, len(m.pieces)), tokens: len(m.pieces), seed: maphash.MakeSeed()}
	v.grow(len(m.pieces))
	for id, piece := range m.pieces {
		v.texts[id] = piece.Text
		v.insert([]byte(piece.Text), id)
	}
	return v, nil
}

// readPieces reads an array of ["text", score].
func readPieces(dec *jsontext.Decoder, path string) ([]spec.Piece, error) {
	pieces := []spec.Piece{}
	err := elements(dec, path, func(i int, value jsontext.Value) error {
		if i >= maxTokens {
			return fmt.Errorf("%s has more than %d pieces", path, maxTokens)
		}
		piece, err := readPiece(value)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", path, i, err)
		}
		pieces = append(pieces, piece)
		return nil
	})
	return pieces, err
}

func readPiece(value jsontext.Value) (piece spec.Piece, err error) {
	text, score, err := pair(value)
	if err != nil || text.Kind() != '"' || score.Kind() != '0' {
		return piece, fmt.Errorf(`%s: want ["text", score]`, clip(value))
	}
	if piece.Score, err = strconv.ParseFloat(string(score), 64); err != nil {
		return piece, err
	}
	piece.Text = unquote(text)
	return piece, nil
}
