package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/bpe"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/chars"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/unigram"
)

// vocabulary brings the texts of tokens into the form of text: bytes, and blanks for marks.
func (b *builder) vocabulary() error {
	var texts []string
	switch {
	case b.spec.BPE != nil:
		texts = slices.Clone(b.spec.BPE.Vocab)
	case b.spec.Unigram != nil:
		for _, p := range b.spec.Unigram.Pieces {
			texts = append(texts, p.Text)
		}
	default:
		return errors.New("model is missing")
	}
	for i := range b.spec.Added {
		a := &b.spec.Added[i]
		if a.ID >= bpe.MaxTokens {
			return fmt.Errorf("added_tokens[%d].id is %d, want less than %d", i, a.ID, bpe.MaxTokens)
		}
		for uint32(len(texts)) <= a.ID {
			texts = append(texts, "")
		}
		texts[a.ID] = a.Content
	}
	raw := make([]string, len(texts))
	decode := newByteAlphabet().decoder()
	total := 0
	for id, text := range texts {
		if b.bytewise {
			raw[id] = decode(text)
		} else {
			raw[id] = strings.ReplaceAll(text, mark, " ")
		}
		total += len(raw[id])
	}
	if total > math.MaxUint32 {
		return errors.New("model.vocab has more than 4 GiB of text")
	}
	b.t.vocab = newVocabulary(raw)
	for id, text := range texts {
		if _, ok := bpe.ByteToken(text); ok && b.t.decoder.fallback {
			b.t.vocab.kinds[id] |= byteKind
		}
		if strings.Contains(text, " ") {
			b.t.vocab.kinds[id] |= blankKind
		}
	}
	return nil
}

// added notes the added tokens, in the form of the text in which they are looked for.
func (b *builder) added() error {
	for _, a := range b.spec.Added {
		b.t.vocab.kinds[a.ID] |= added
		if a.Special {
			b.t.vocab.kinds[a.ID] |= control
		}
		if a.Normalized {
			a.Content = string(b.t.normalizer.Append(nil, a.Content))
			if b.t.marksEarly {
				a.Content = b.t.marks.apply(a.Content, false, new(scratch))
			}
		}
		b.t.addedTokens = append(b.t.addedTokens, a)
	}
	b.t.matchers()
	return nil
}

// matchers divides the added tokens by where they are looked for.
func (t *Tokenizer) matchers() {
	var raw, normalized []spec.AddedToken
	for _, a := range t.addedTokens {
		if a.Normalized {
			normalized = append(normalized, a)
		} else {
			raw = append(raw, a)
		}
	}
	t.raw, t.normalized = newMatcher(raw), newMatcher(normalized)
	if t.marksEarly { // a mark is no white space
		t.normalized.space = slices.DeleteFunc(t.normalized.space, func(r chars.Range) bool { return r.Lo == ' ' && r.Hi == ' ' })
	}
}

func (b *builder) model() (err error) {
	if b.spec.Unigram != nil {
		m := *b.spec.Unigram
		m.Pieces = slices.Clone(m.Pieces)
		for i := range m.Pieces {
			if m.Pieces[i].Text = b.t.vocab.text(uint32(i)); b.hidden(uint32(i)) && i != m.Unk {
				m.Pieces[i].Text = ""
			}
		}
		b.t.unigram, err = unigram.New(&m)
		return err
	}
	b.t.bpe, err = bpe.New(b.spec.BPE, b.t.vocab.texts, b.hidden, b.bytewise)
	return err
}

// hidden reports whether the model must not make a token: control tokens, which text never
// forms by itself; added ones that are none of the model's; and those with a blank in the file,
// which no text reaches where blanks are marks.
func (b *builder) hidden(id uint32) bool {
	kind := b.t.vocab.kind(id)
	if kind&control != 0 {
		return true
	}
	text := ""
	if b.spec.Unigram != nil {
		text = b.spec.Unigram.Pieces[id].Text
	} else if int(id) < len(b.spec.BPE.Vocab) {
		text = b.spec.BPE.Vocab[id]
	}
	return text == "" || b.t.marks.on && strings.Contains(text, " ")
}

// endsByName lists the tokens that are known by their text to end a generation.
func endsByName(t *Tokenizer) []sequence.Token {
	var ends []sequence.Token
	for id := range uint32(t.VocabTokens()) {
		if t.vocab.kind(id)&added != 0 && slices.Contains(endNames(), t.vocab.text(id)) {
			ends = append(ends, id)
		}
	}
	slices.SortFunc(ends, cmp.Compare[uint32])
	return withoutFalseEnds(ends, &t.vocab)
}
