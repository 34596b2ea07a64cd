package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// sentencePiece reads a BPE of characters. Its file has a score for each token, and no
// merges: they follow from the scores, as in the conversion to a tokenizer.json.
func (r *ggufReader) sentencePiece() error {
	scores, err := r.scores()
	if err != nil {
		return err
	}
	m := &spec.BPE{Vocab: r.texts, Unk: r.unknown(), FuseUnk: true, ByteFallback: true, Merges: r.scoredMerges(scores)}
	r.spec.BPE = m
	prefix, err := r.optional("tokenizer.ggml.add_space_prefix", true)
	if err != nil {
		return err
	}
	if prefix {
		r.spec.Normalizer = append(r.spec.Normalizer, spec.Step{Path: "add_space_prefix", Type: "Prepend", Content: mark})
	}
	r.spec.Normalizer = append(r.spec.Normalizer, spec.Step{Path: "model", Type: "Replace", Pattern: " ", Content: mark})
	r.spec.Decoder = []spec.Step{
		{Path: "decoder", Type: "Replace", Pattern: mark, Content: " "}, {Path: "decoder", Type: "ByteFallback"}, {Path: "decoder", Type: "Fuse"},
	}
	if prefix {
		r.spec.Decoder = append(r.spec.Decoder, spec.Step{Path: "decoder", Type: "Strip", Content: " ", Left: 1})
	}
	return nil
}

func (r *ggufReader) scores() ([]float64, error) {
	const key = "tokenizer.ggml.scores"
	scores, err := r.file.Floats(key)
	if err == nil && len(scores) != len(r.texts) {
		err = fmt.Errorf("metadata %q has %d elements, want one for each of the %d tokens", key, len(scores), len(r.texts))
	}
	return scores, err
}

// unknown is the token for what has none, or -1.
func (r *ggufReader) unknown() int {
	for id := range r.texts {
		if r.types[id] == ggufUnknown {
			return id
		}
	}
	return -1
}

// scoredMerges lists every way to join two tokens to a third: the better its score the
// sooner, and those to one token in the order of their parts.
func (r *ggufReader) scoredMerges(scores []float64) []spec.Merge {
	ids := make(map[string]uint32, len(r.texts))
	for id, text := range r.texts {
		if kind := r.types[id]; kind == ggufNormal || kind == ggufUserDefined {
			ids[text] = uint32(id)
		}
	}
	var merges []spec.Merge
	for id, text := range r.texts {
		if ids[text] != uint32(id) {
			continue
		}
		from := len(merges)
		for at := range text {
			left, okL := ids[text[:at]]
			right, okR := ids[text[at:]]
			if okL && okR && utf8.RuneStart(text[at]) {
				merges = append(merges, spec.Merge{Left: left, Right: right, Result: uint32(id)})
			}
		}
		slices.SortFunc(merges[from:], func(a, b spec.Merge) int {
			return cmp.Or(cmp.Compare(a.Left, b.Left), cmp.Compare(a.Right, b.Right))
		})
	}
	slices.SortStableFunc(merges, func(a, b spec.Merge) int { return cmp.Compare(scores[b.Result], scores[a.Result]) })
	return merges
}

// unigram reads a Unigram model.
func (r *ggufReader) unigram() error {
	scores, err := r.scores()
	if err != nil {
		return err
	}
	m := &spec.Unigram{Unk: r.unknown()}
	for id, text := range r.texts {
		m.Pieces = append(m.Pieces, spec.Piece{Text: text, Score: scores[id]})
		m.ByteFallback = m.ByteFallback || r.types[id] == ggufByte
	}
	r.spec.Unigram = m
	const key = "tokenizer.ggml.precompiled_charsmap"
	if r.file.Has(key) {
		charsmap, err := r.file.Ints(key)
		if err != nil {
			return err
		}
		raw := make([]byte, len(charsmap))
		for i, b := range charsmap {
			raw[i] = byte(b)
		}
		r.spec.Normalizer = []spec.Step{{Path: "precompiled_charsmap", Type: "Precompiled", Charsmap: raw}}
	}
	r.spec.PreTokenizer = []spec.Step{{Path: "model", Type: "WhitespaceSplit"}, {Path: "model", Type: "Metaspace", Replacement: mark, PrependScheme: "always", Split: true}}
	r.spec.Decoder = []spec.Step{{Path: "decoder", Type: "Metaspace", Replacement: mark, PrependScheme: "always"}}
	return nil
}
