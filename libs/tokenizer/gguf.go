package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// Types of tokens in a GGUF file.
const (
	ggufNormal      = 1
	ggufUnknown     = 2
	ggufControl     = 3
	ggufUserDefined = 4
	ggufByte        = 6
)

// FromGGUF builds the tokenizer that a model file describes. The file may be
// closed afterwards. Errors name the metadata key.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	r := ggufReader{file: f, spec: &spec.Tokenizer{}}
	if err := r.read(); err != nil {
		return nil, err
	}
	t, err := build(r.spec)
	if err != nil {
		return nil, fmt.Errorf("metadata tokenizer.ggml: %w", err)
	}
	if t.ends, err = endTokens(f, t); err != nil {
		return nil, err
	}
	return t, t.loadBOS(f)
}

func (t *Tokenizer) loadBOS(f *gguf.File) (err error) {
	if t.bos, t.hasBOS, err = tokenKey(f, "tokenizer.ggml.bos_token_id", t.VocabTokens()); err != nil {
		return err
	}
	const key = "tokenizer.ggml.add_bos_token"
	if !f.Has(key) {
		return nil
	}
	if t.addBOS, err = f.Bool(key); err != nil {
		return err
	}
	if t.addBOS && !t.hasBOS {
		return fmt.Errorf("metadata %q is true, but the file has no tokenizer.ggml.bos_token_id", key)
	}
	return nil
}

// tokenKey reads a metadata key that, if it is there, holds a token.
func tokenKey(f *gguf.File, key string, vocabTokens int) (token sequence.Token, ok bool, err error) {
	if !f.Has(key) {
		return 0, false, nil
	}
	n, err := f.Uint(key)
	if err != nil {
		return 0, false, err
	}
	if n >= uint64(vocabTokens) {
		return 0, false, fmt.Errorf("metadata %q is %d, want less than the vocabulary's %d", key, n, vocabTokens)
	}
	return sequence.Token(n), true, nil
}

type ggufReader struct {
	file  *gguf.File
	spec  *spec.Tokenizer
	texts []string
	types []int64
}

func (r *ggufReader) read() error {
	const key = "tokenizer.ggml.model"
	model, err := r.file.String(key)
	if err != nil {
		return err
	}
	if err := r.tokens(); err != nil {
		return err
	}
	switch model {
	case "gpt2":
		return r.bytewise()
	case "llama":
		return r.sentencePiece()
	case "t5":
		return r.unigram()
	}
	return fmt.Errorf(`metadata %q is %q, want "gpt2" (byte-level BPE), "llama" (BPE of characters) or "t5" (Unigram)`, key, model)
}

// tokens reads the vocabulary, and makes control and user-defined tokens added ones.
func (r *ggufReader) tokens() (err error) {
	const tokensKey, typesKey = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
	if r.texts, err = r.file.Strings(tokensKey); err != nil {
		return err
	}
	if r.file.Has(typesKey) {
		if r.types, err = r.file.Ints(typesKey); err != nil {
			return err
		}
		if len(r.types) != len(r.texts) {
			return fmt.Errorf("metadata %q has %d elements, want one for each of the %d tokens", typesKey, len(r.types), len(r.texts))
		}
	} else {
		r.types = slices.Repeat([]int64{ggufNormal}, len(r.texts))
	}
	r.markEnds()
	known := make(map[string]int, len(r.texts))
	for id, text := range r.texts {
		if first, twice := known[text]; twice {
			return fmt.Errorf("metadata %q: %q is both token %d and %d", tokensKey, text, first, id)
		}
		known[text] = id
		if kind := r.types[id]; kind == ggufControl || kind == ggufUserDefined {
			r.spec.Added = append(r.spec.Added, spec.AddedToken{ID: uint32(id), Content: text, Special: kind == ggufControl})
		}
	}
	return nil
}

// bytewise reads a byte-level BPE.
func (r *ggufReader) bytewise() error {
	m := &spec.BPE{Vocab: r.texts, Unk: -1}
	r.spec.BPE = m
	const key = "tokenizer.ggml.pre"
	name, err := r.file.String(key)
	if err != nil {
		return err
	}
	pre, ok := preTokenizers()[name]
	if !ok {
		return fmt.Errorf("metadata %q is %q, want one of %s", key, name, strings.Join(preNames(), ", "))
	}
	for i, pattern := range pre.patterns {
		r.spec.PreTokenizer = append(r.spec.PreTokenizer, spec.Step{
			Path: fmt.Sprintf("pre, pattern %d", i), Type: "Split", Pattern: pattern, Regex: true, Behavior: "Isolated",
		})
	}
	r.spec.PreTokenizer = append(r.spec.PreTokenizer, spec.Step{Path: "pre", Type: "ByteLevel", UseRegex: pre.gpt2})
	r.spec.Decoder = []spec.Step{{Path: "decoder", Type: "ByteLevel"}}
	if pre.nfc {
		r.spec.Normalizer = []spec.Step{{Path: "pre", Type: "NFC"}}
	}
	m.IgnoreMerges = pre.ignoreMerges
	return r.merges(m)
}

// merges reads the merges of a byte-level BPE, which are pairs of tokens with a blank between.
func (r *ggufReader) merges(m *spec.BPE) error {
	const key = "tokenizer.ggml.merges"
	merges, err := r.file.Strings(key)
	if err != nil {
		return err
	}
	ids := make(map[string]uint32, len(r.texts))
	for id, text := range r.texts {
		ids[text] = uint32(id)
	}
	m.Merges = make([]spec.Merge, 0, len(merges))
	seen := make(map[[2]uint32]bool, len(merges))
	for rank, merge := range merges {
		left, right, ok := strings.Cut(merge, " ")
		l, okL := ids[left]
		r, okR := ids[right]
		result, okM := ids[left+right]
		if !ok || !okL || !okR || !okM {
			return fmt.Errorf("metadata %q: merge %d is %q, want two tokens whose join is a token", key, rank, merge)
		}
		if pair := [2]uint32{l, r}; !seen[pair] { // a merge that is listed twice keeps its first rank
			seen[pair] = true
			m.Merges = append(m.Merges, spec.Merge{Left: l, Right: r, Result: result})
		}
	}
	return nil
}

// optional reads a flag that may be missing.
func (r *ggufReader) optional(key string, missing bool) (bool, error) {
	if !r.file.Has(key) {
		return missing, nil
	}
	return r.file.Bool(key)
}
