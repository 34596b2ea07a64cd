package oracle

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/hfjson"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// Variant is a made-up tokenizer, for what the real ones do not do.
type Variant struct {
	Name string
	JSON []byte
}

// object is a JSON object.
type object = map[string]any

// Variants gives tokenizers whose vocabularies come from real ones. read reads a model's tokenizer.json.
func Variants(read func(model string) ([]byte, error)) ([]Variant, error) {
	byteLevel, err := byteLevelModel(read)
	if err != nil {
		return nil, err
	}
	marked, err := markedModel(read)
	if err != nil {
		return nil, err
	}
	var out []Variant
	add := func(name string, file object) {
		file["version"] = "1.0"
		text, marshalErr := json.Marshal(file, json.Deterministic(true))
		if marshalErr != nil {
			err = fmt.Errorf("%s: %w", name, marshalErr)
		}
		out = append(out, Variant{name, text})
	}
	byteLevelVariants(byteLevel, add)
	markedVariants(marked, add)
	unigramVariants(marked, add)
	return out, err
}

// byteLevelModel is the bytes and the first merges of a byte-level vocabulary.
func byteLevelModel(read func(model string) ([]byte, error)) (*spec.BPE, error) {
	const merges = 6000
	full, err := decode(read, "gpt4o")
	if err != nil {
		return nil, err
	}
	out := &spec.BPE{}
	ids := map[string]uint32{}
	token := func(text string) uint32 {
		id, ok := ids[text]
		if !ok {
			id = uint32(len(out.Vocab))
			out.Vocab, ids[text] = append(out.Vocab, text), id
		}
		return id
	}
	for _, r := range slices.Sorted(maps.Keys(byteOf())) {
		token(string(r))
	}
	for _, m := range full.BPE.Merges[:merges] {
		left, right := full.BPE.Vocab[m.Left], full.BPE.Vocab[m.Right]
		out.Merges = append(out.Merges, spec.Merge{Left: token(left), Right: token(right), Result: token(left + right)})
	}
	return out, nil
}

// markedModel is a vocabulary of characters with marks for blanks.
func markedModel(read func(model string) ([]byte, error)) (*spec.BPE, error) {
	full, err := decode(read, "llama2")
	if err != nil {
		return nil, err
	}
	return full.BPE, nil
}

func decode(read func(model string) ([]byte, error), model string) (*spec.Tokenizer, error) {
	data, err := read(model)
	if err != nil {
		return nil, err
	}
	out, err := hfjson.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", model, err)
	}
	return out, nil
}

// bpe is the "model" of a vocabulary, with options.
func bpe(b *spec.BPE, options object) object {
	out := object{"type": "BPE", "vocab": vocab(b.Vocab)}
	var merges [][2]string
	for _, m := range b.Merges {
		merges = append(merges, [2]string{b.Vocab[m.Left], b.Vocab[m.Right]})
	}
	out["merges"] = merges
	maps.Copy(out, options)
	return out
}

func vocab(texts []string) map[string]int {
	out := make(map[string]int, len(texts))
	for id, text := range texts {
		out[text] = id
	}
	return out
}

// unigram gives the tokens of a vocabulary scores, in which earlier and longer ones are more probable.
func unigram(texts []string, options object) object {
	pieces := make([][2]any, len(texts))
	for i, text := range texts {
		score := -math.Log(float64(i+1)) + 0.7*float64(len(strings.TrimPrefix(text, "▁")))
		pieces[i] = [2]any{text, math.Round(score*1e4)/1e4 - 12}
	}
	out := object{"type": "Unigram", "vocab": pieces, "unk_id": 0}
	maps.Copy(out, options)
	return out
}

// Kinds of added tokens that have variants of their own, so that what differs about them hides nothing else.
const (
	withBlanks     = 1 << iota // that have white space within
	withNormalized             // that are normalized
)

// flagged are added tokens with all the flags that there are, of the next ids of a vocabulary.
func flagged(texts []string, kinds int) (out []object) {
	ids := vocab(texts)
	next := len(texts)
	for _, t := range []struct{ content, flags string }{
		{"<s>", "special"}, {"<l>", "lstrip"}, {"<r>", "rstrip special"}, {"<lr>", "lstrip rstrip"},
		{"word", "single_word"}, {"<w>", "single_word special"}, {"中文", "single_word"}, {"🙂", "lstrip rstrip single_word"},
		{"<a>", ""}, {"<a><b>", ""}, {"é́", ""}, {"the", ""}, // the last is a token of the model
		{"x y", "lstrip"}, {"x y", "lstrip"}, {"\n\n\n", ""}, {"<S p>", "special"},
		{"Norm", "normalized"}, {"NÉ", "normalized"}, {"<nr>", "normalized rstrip special"}, {"nw", "normalized single_word"},
		{"a><", "normalized"}, {"ﬁn", "normalized"}, {"ing", "normalized"}, {"<N l>", "normalized lstrip"}, {"  ", "normalized"},
	} {
		flags := strings.Fields(t.flags)
		switch {
		case kinds&withBlanks == 0 && strings.ContainsAny(t.content, " \n"),
			kinds&withNormalized == 0 && slices.Contains(flags, "normalized"):
			continue
		}
		id, ok := ids[t.content]
		if !ok {
			id = next
			ids[t.content] = id
			next++
		}
		token := object{"id": id, "content": t.content}
		for _, flag := range []string{"special", "single_word", "lstrip", "rstrip", "normalized"} {
			token[flag] = slices.Contains(flags, flag)
		}
		out = append(out, token)
	}
	return out
}

// VariantsName is the name of the recording of all variants.
const VariantsName = "variants"

// VariantSet names a set of a variant in it.
func VariantSet(variant, set string) string { return variant + "." + set }

// VariantSets are what a variant is compared on.
func VariantSets(sets []Set) []Set { return Sample(sets, 4) }
