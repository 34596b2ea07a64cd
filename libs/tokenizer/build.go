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
	"github.com/switchyard-llm/switchyard/libs/tokenizer/hfjson"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/normalize"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/split"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/unigram"
)

// FromJSON builds the tokenizer that a tokenizer.json describes; the result keeps nothing of
// data. Errors name the place in the file.
func FromJSON(data []byte) (*Tokenizer, error) {
	s, err := hfjson.Decode(data)
	if err != nil {
		return nil, err
	}
	t, err := build(s)
	if err != nil {
		return nil, err
	}
	t.ends = endsByName(t)
	if len(t.prefix) > 0 {
		t.bos, t.hasBOS, t.addBOS = t.prefix[0], true, true
	}
	return t, nil
}

// build makes a tokenizer out of its description.
func build(s *spec.Tokenizer) (*Tokenizer, error) {
	b := builder{spec: s, t: newTokenizer()}
	b.t.prefix, b.t.suffix = s.Prefix, s.Suffix
	for _, part := range []func() error{b.steps, b.decoder, b.vocabulary, b.added, b.model} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	b.t.remember()
	return b.t, nil
}

func newTokenizer() *Tokenizer {
	t := &Tokenizer{}
	t.scratch.New = func() any { return new(scratch) }
	return t
}

// remember lets the tokenizer remember segments, if texts can be cut.
func (t *Tokenizer) remember() {
	if t.cuts() && !t.bpe.Plain() {
		t.segments = newSegments()
	}
}

type builder struct {
	spec     *spec.Tokenizer
	t        *Tokenizer
	bytewise bool
}

// steps sorts the steps of normalizer and pre-tokenizer by what does them.
func (b *builder) steps() (err error) {
	normalizer := b.spec.Normalizer
	for _, step := range append(slices.Clone(normalizer), b.spec.PreTokenizer...) {
		b.bytewise = b.bytewise || step.Type == "ByteLevel"
	}
	if n := len(normalizer); n > 0 && normalizer[n-1].Type == "ByteLevel" {
		normalizer = normalizer[:n-1]
	}
	if n := len(normalizer); n > 0 && isMarks(&normalizer[n-1]) {
		normalizer = normalizer[:n-1]
		b.t.marks.on, b.t.marksEarly = true, true
		if n > 1 && normalizer[n-2].Type == "Prepend" && (normalizer[n-2].Content == mark || normalizer[n-2].Content == " ") {
			normalizer = normalizer[:n-2]
			b.t.marks.prefix = alwaysBlank
		}
	}
	b.t.normalizerSteps = normalizer
	if b.t.normalizer, err = normalize.New(normalizer); err != nil {
		return err
	}
	outer, inner, err := b.preTokenizer()
	if err != nil {
		return err
	}
	if b.t.outer, err = split.New(outer); err != nil {
		return err
	}
	if b.t.pieces, err = split.New(inner); err != nil {
		return err
	}
	if b.bytewise && b.t.marks.on {
		return errors.New("pre_tokenizer has both ByteLevel and marks for blanks, want one of them")
	}
	return nil
}

// isMarks reports whether a step makes a mark of every blank.
func isMarks(s *spec.Step) bool {
	return s.Type == "Replace" && !s.Regex && s.Pattern == " " && s.Content == mark
}

// preTokenizer divides the steps by where a blank is put before a text: what is split before,
// and what after that.
func (b *builder) preTokenizer() (outer, inner []spec.Step, err error) {
	if inner, err = afterMarks(b.spec.PreTokenizer, b.t.marks.on); err != nil {
		return nil, nil, err
	}
	for i := range inner {
		step := &inner[i]
		put := noPrefix
		switch {
		case step.Type == "Metaspace":
			if step.Replacement != mark {
				return nil, nil, fmt.Errorf("%s.replacement is %q, want %q", step.Path, step.Replacement, mark)
			}
			put = map[string]prefix{"always": unlessBlank, "first": firstBlank, "never": noPrefix}[step.PrependScheme]
		case step.Type == "ByteLevel" && step.AddPrefixSpace:
			put = unlessBlank
		default:
			continue
		}
		if b.t.marks != (marks{}) {
			return nil, nil, fmt.Errorf("%s: %s puts a blank before text once more, want one step that does", step.Path, step.Type)
		}
		b.t.marks = marks{on: step.Type == "Metaspace", prefix: put}
		rest, err := afterMarks(inner[i+1:], b.t.marks.on)
		return inner[:i], append(inner[i:i+1:i+1], rest...), err
	}
	return nil, inner, nil
}

// afterMarks brings steps that follow the marks into the form of text, in which a blank
// stands for a mark, and no blank is left to be found.
func afterMarks(steps []spec.Step, on bool) (out []spec.Step, err error) {
	for _, s := range steps {
		switch {
		case !on || s.Type == "Digits" || s.Type == "Punctuation":
		case s.Type == "Split" && !s.Regex && strings.Contains(s.Pattern, " "):
			continue
		case s.Type == "Split" && !s.Regex:
			s.Pattern = strings.ReplaceAll(s.Pattern, mark, " ")
		default:
			return nil, fmt.Errorf("%s: %s is not supported after blanks were made marks, want Digits, Punctuation or Split at a literal", s.Path, s.Type)
		}
		out = append(out, s)
	}
	return out, nil
}

// decoder wants one of the forms that real files have.
func (b *builder) decoder() error {
	steps := b.spec.Decoder
	d := &b.t.decoder
	if len(steps) == 1 && steps[0].Type == "ByteLevel" && b.bytewise {
		d.bytewise = true
		return nil
	}
	marks, fused := false, false
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Type == "Replace" && !s.Regex && s.Pattern == mark && s.Content == " " && i == 0:
			marks = true
		case s.Type == "Metaspace" && s.Replacement == mark && i == 0:
			marks, d.noMark = true, s.PrependScheme != "never"
		case s.Type == "ByteFallback" && !fused:
			d.fallback = true
		case s.Type == "Fuse":
			fused = true
		case s.Type == "Strip" && fused && s.Content == " " && s.Right == 0:
			d.strip = s.Left
		default:
			return fmt.Errorf("%s: %s is not supported here, want ByteLevel after a ByteLevel pre-tokenizer; or Metaspace, or Replace of marks, ByteFallback, Fuse and Strip of blanks at the start, in this order", s.Path, s.Type)
		}
	}
	if !marks || b.bytewise {
		return errors.New("decoder does not fit the pre-tokenizer: want ByteLevel after ByteLevel, marks made blanks after blanks made marks")
	}
	return nil
}

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
