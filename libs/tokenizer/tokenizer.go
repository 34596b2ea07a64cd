// Package tokenizer turns text into a model's tokens and back: byte-level BPE
// with the vocabulary, the merges and the special tokens of a GGUF file.
//
// It gives the tokens that Hugging Face's tokenizers library gives for the same
// vocabulary. It knows the GPT-2 family of pre-tokenizers, with and without single
// digits, and refuses a file that names another one. Bytes is a vocabulary without a
// file. It does not know chats; libs/chattemplate writes them as text.
//
// Two traits follow the reference, not intuition. A byte that has no token of its
// own (SmolLM2 lacks 21, among them the control characters U+0004 and U+0014) is
// dropped, and its neighbours may merge. Text that is not valid UTF-8 is encoded as
// if each invalid byte were U+FFFD.
//
// A Tokenizer is immutable and safe for concurrent use; a Detokenizer belongs to
// one goroutine. The package starts no goroutine.
package tokenizer

import (
	"fmt"
	"slices"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Special says what becomes of control tokens such as <|im_end|>.
type Special bool

const (
	// NoSpecial encodes the text of control tokens like any other text, and leaves
	// control tokens out of decoded text.
	NoSpecial Special = false
	// WithSpecial encodes it as the control tokens, and decodes them to it.
	WithSpecial Special = true
)

// Segment is a run of text and where it comes from.
type Segment struct {
	Text string
	// Trusted text may form control tokens: that of a chat template, not of a chat.
	Trusted bool
}

// Tokenizer is the vocabulary of one model.
type Tokenizer struct {
	vocab   vocabulary
	split   splitter
	bpe     bpe
	added   matcher
	ends    []sequence.Token
	bos     sequence.Token
	hasBOS  bool
	addBOS  bool
	single  bool      // each byte is a token: nothing is split and merged
	scratch sync.Pool // of *scratch
}

// FromGGUF builds the tokenizer that a model file describes. The file may be
// closed afterwards. Errors name the metadata key.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	model, err := f.String("tokenizer.ggml.model")
	if err != nil {
		return nil, err
	}
	if model != "gpt2" {
		return nil, fmt.Errorf(`metadata "tokenizer.ggml.model" is %q, want "gpt2" (byte-level BPE)`, model)
	}
	t := &Tokenizer{scratch: sync.Pool{New: func() any { return new(scratch) }}}
	if t.split, err = newSplitter(f); err != nil {
		return nil, err
	}
	ids, err := t.vocab.load(f)
	if err != nil {
		return nil, err
	}
	if err := t.bpe.load(f, ids); err != nil {
		return nil, err
	}
	if t.ends, err = endTokens(f, &t.vocab, ids); err != nil {
		return nil, err
	}
	t.added = newMatcher(&t.vocab)
	t.bpe.indexWords(&t.vocab)
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

// VocabTokens is the size of the vocabulary.
func (t *Tokenizer) VocabTokens() int { return len(t.vocab.kinds) }

// Token returns the bytes of a token, which need not be valid UTF-8, and whether it
// is a control token. A token outside the vocabulary has no bytes.
func (t *Tokenizer) Token(id sequence.Token) (text string, special bool) {
	return t.vocab.text(id), t.vocab.kind(id) == kindControl
}

// EndTokens lists every end-of-generation token of the file, ascending.
func (t *Tokenizer) EndTokens() []sequence.Token { return slices.Clone(t.ends) }

// BOS is the token that begins a sequence, if the file names one.
func (t *Tokenizer) BOS() (token sequence.Token, ok bool) { return t.bos, t.hasBOS }

// AddBOS reports whether the file wants BOS before a prompt that is not a rendered
// chat. Encode never adds it.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// ControlTexts lists the texts of all control tokens in the order of their ids.
func (t *Tokenizer) ControlTexts() []string {
	var out []string
	for id, kind := range t.vocab.kinds {
		if kind == kindControl {
			out = append(out, t.vocab.text(sequence.Token(id)))
		}
	}
	return out
}
