package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/hfjson"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/normalize"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/split"
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
	if len(s.Prefix) > 0 {
		t.bos, t.hasBOS, t.addBOS = s.Prefix[0], true, true
	}
	return t, nil
}

// build makes a tokenizer out of its description.
func build(s *spec.Tokenizer) (*Tokenizer, error) {
	b := builder{spec: s, t: newTokenizer()}
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
