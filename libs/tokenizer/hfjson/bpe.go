package hfjson

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

func (m *model) bpe(out *spec.Tokenizer) error {
	o := &m.options
	switch {
	case m.vocab == nil:
		o.fail("vocab", "is missing: want an object of tokens and their ids")
	case !m.hasMerges:
		o.fail("merges", "is missing")
	}
	if value, ok := o.value("dropout"); ok && strings.Trim(string(value), "0.") != "" {
		o.fail("dropout", "is %s: want none, tokens must not depend on chance", clip(value))
	}
	for _, name := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		if value, ok := o.value(name); ok && string(value) != `""` {
			o.fail(name, "is %s, which is not done: want none", clip(value))
		}
	}
	b := &spec.BPE{
		Unk:          m.unknown(),
		Merges:       m.merges,
		FuseUnk:      o.option("fuse_unk", false),
		ByteFallback: o.option("byte_fallback", false),
		IgnoreMerges: o.option("ignore_merges", false),
	}
	if err := o.close(); err != nil {
		return err
	}
	b.Vocab = m.vocab.texts
	out.BPE = b
	return nil
}

// unknown is the id of the token for what has no token; -1 if there is none.
func (m *model) unknown() int {
	o := &m.options
	if _, ok := o.value("unk_token"); !ok || m.vocab == nil {
		return -1
	}
	text := o.text("unk_token")
	id, ok := m.vocab.id([]byte(text))
	if !ok {
		o.fail("unk_token", "is %q, which is not in model.vocab", clip(text))
	}
	return int(id)
}

// mergeReader resolves merges to ids. Its buffer is reused.
type mergeReader struct {
	vocab *vocabulary
	buf   []byte
}

// readMerges reads pairs ["a", "b"] or, as older files have them, "a b": all of them the same.
func (m *model) readMerges(dec *jsontext.Decoder) error {
	const path = "model.merges"
	if m.vocab == nil {
		return fmt.Errorf("%s is there, but no model.vocab of tokens and their ids", path)
	}
	m.hasMerges = true
	if err := open(dec, path, '['); err != nil {
		return err
	}
	r := mergeReader{vocab: m.vocab}
	form := dec.PeekKind()
	for i := 0; dec.PeekKind() != ']'; i++ {
		if got := dec.PeekKind(); got != form && got != jsontext.KindInvalid {
			return wrongKind(fmt.Sprintf("%s[%d]", path, i), got, form)
		}
		merge, ok, err := r.read(dec, form)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", path, i, err)
		}
		if ok {
			m.merges = append(m.merges, merge)
		}
	}
	_, err := dec.ReadToken()
	return err
}

// read reads a merge; it is not ok for the line of a merges.txt that is none.
func (r *mergeReader) read(dec *jsontext.Decoder, form jsontext.Kind) (merge spec.Merge, ok bool, err error) {
	var left int
	if form == '[' {
		left, err = r.pair(dec)
	} else {
		left, ok, err = r.line(dec)
		if err == nil && !ok {
			return merge, false, nil
		}
	}
	if err != nil {
		return merge, false, err
	}
	parts := [...][]byte{r.buf[:left], r.buf[left:], r.buf}
	for i, to := range []*uint32{&merge.Left, &merge.Right, &merge.Result} {
		if *to, ok = r.vocab.id(parts[i]); !ok {
			return merge, false, fmt.Errorf("%q is not in model.vocab", clip(parts[i]))
		}
	}
	return merge, true, nil
}

// pair reads ["a", "b"] into the buffer as "ab" and gives the length of a.
func (r *mergeReader) pair(dec *jsontext.Decoder) (left int, err error) {
	const want = "want a pair of strings"
	if _, err := dec.ReadToken(); err != nil {
		return 0, err
	}
	r.buf = r.buf[:0]
	for i := range 2 {
		if dec.PeekKind() == ']' {
			return 0, fmt.Errorf("%d elements: %s", i, want)
		}
		value, err := dec.ReadValue()
		if err != nil {
			return 0, err
		}
		if value.Kind() != '"' {
			return 0, fmt.Errorf("%s: %s", clip(value), want)
		}
		r.buf = appendText(r.buf, value)
		if i == 0 {
			left = len(r.buf)
		}
	}
	end, err := dec.ReadToken()
	if err == nil && end.Kind() != ']' {
		return 0, fmt.Errorf("more than two elements: %s", want)
	}
	return left, err
}

// line reads "a b" like pair.
func (r *mergeReader) line(dec *jsontext.Decoder) (left int, ok bool, err error) {
	value, err := dec.ReadValue()
	if err != nil {
		return 0, false, err
	}
	if value.Kind() != '"' {
		return 0, false, fmt.Errorf(`%s: want "a b" or ["a", "b"]`, clip(value))
	}
	r.buf = appendText(r.buf[:0], value)
	if bytes.HasPrefix(r.buf, []byte("#version")) { // the head of a merges.txt
		return 0, false, nil
	}
	left = bytes.IndexByte(r.buf, ' ')
	if left < 0 || bytes.IndexByte(r.buf[left+1:], ' ') >= 0 {
		return 0, false, fmt.Errorf("%q: want two tokens with a space between them", clip(r.buf))
	}
	r.buf = append(r.buf[:left], r.buf[left+1:]...)
	return left, true, nil
}
