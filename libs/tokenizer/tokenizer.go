// Package tokenizer turns text into a model's tokens and back, from a tokenizer.json or the
// vocabulary of a GGUF file.
//
// It gives the tokens that Hugging Face's tokenizers library gives for the same file:
// byte-level BPE, BPE of characters with byte fallback (the SentencePiece style), and
// Unigram, with the normalizers, pre-tokenizers and decoders that real files of these use.
// What it cannot do exactly is an error when the file is loaded, which names the place.
// Bytes is a vocabulary without a file. It does not know chats; libs/chattemplate writes
// them as text.
//
// Two traits follow the reference, not intuition. A byte that has no token of its
// own (SmolLM2 lacks 21, among them the control characters U+0004 and U+0014) is
// dropped, and its neighbours may merge. Text that is not valid UTF-8 is encoded as
// if each invalid byte were U+FFFD.
//
// A Tokenizer is immutable and safe for concurrent use; a Detokenizer belongs to one
// goroutine. Encoding a long text takes more cores by goroutines that end before it returns.
package tokenizer

import (
	"slices"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/bpe"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/normalize"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/split"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/unigram"
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

// Tokenizer is the vocabulary of one model and what it does to text. The path of a text is
// that of encode: added tokens, normalizer, marks, pieces, model.
type Tokenizer struct {
	vocab      vocabulary
	raw        matcher // added tokens that are found in the text as it is
	normalizer *normalize.Chain
	normalized matcher         // added tokens that are found in the normalized text
	outer      *split.Splitter // what is split before marks are made
	marks      marks
	marksEarly bool // they are made by the normalizer: before normalized is looked for
	pieces     *split.Splitter
	bpe        *bpe.Model // the model is this or unigram
	unigram    *unigram.Model
	segments   *segments // nil: texts cannot be cut
	decoder    decoder

	ends    []sequence.Token
	bos     sequence.Token
	hasBOS  bool
	addBOS  bool
	scratch sync.Pool // of *scratch

	// What normalizer, raw and normalized are made of.
	normalizerSteps []spec.Step
	addedTokens     []spec.AddedToken
}

// VocabTokens is the size of the vocabulary: all ids are below it.
func (t *Tokenizer) VocabTokens() int { return len(t.vocab.kinds) }

// Token returns the bytes of a token, which need not be valid UTF-8, and whether it
// is a control token. A token outside the vocabulary has no bytes.
func (t *Tokenizer) Token(id sequence.Token) (text string, special bool) {
	return t.vocab.bytes(id), t.vocab.kind(id)&control != 0
}

// EndTokens lists every end-of-generation token of the file, ascending. A tokenizer.json
// does not name them; they are known by their texts.
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
		if kind&control != 0 {
			out = append(out, t.vocab.text(sequence.Token(id)))
		}
	}
	return out
}
