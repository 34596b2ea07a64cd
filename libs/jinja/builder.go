package jinja

import (
	"fmt"
	"math"
	"strings"
)

// builder puts a text together and keeps its provenance. It pays for its memory, and
// for nothing else, before it takes it.
type builder struct {
	st    *state
	buf   strings.Builder
	runs  runs
	limit int // of bytes, 0 for none but the memory
}

const builderBytes = 96 // of memory

func (b *builder) len() int { return b.buf.Len() }

// grow makes room for n more bytes.
func (b *builder) grow(n int) error {
	need := b.buf.Len() + n
	if b.limit > 0 && need > b.limit {
		return fmt.Errorf("%w: more than %d bytes written", ErrLimit, b.limit)
	}
	if need <= b.buf.Cap() {
		return nil
	}
	n = max(n, 32)
	took := 2*b.buf.Cap() + n // as Grow does
	if b.buf.Cap() == 0 {
		took += builderBytes
	}
	if err := b.st.alloc(took); err != nil {
		return err
	}
	b.buf.Grow(n)
	return nil
}

// write adds text of one origin.
func (b *builder) write(s string, chat bool) error {
	if s == "" {
		return nil
	}
	if b.limit > 0 || len(s) > b.buf.Cap()-b.buf.Len() {
		if err := b.grow(len(s)); err != nil {
			return err
		}
	}
	b.buf.WriteString(s)
	n := len(b.runs)
	if n > 0 && b.runs[n-1].chat == chat {
		b.runs[n-1].end = b.buf.Len()
		return nil
	}
	if n == cap(b.runs) {
		if err := b.st.alloc(max(8, 2*n) * runBytes); err != nil {
			return err
		}
		b.runs = append(make(runs, 0, max(8, 2*n)), b.runs...)
	}
	b.runs = append(b.runs, run{b.buf.Len(), chat})
	return nil
}

// glue adds text that stands between values: brackets, commas, blanks. It counts to what
// is before it, since a run of its own for each would be dear and tell nothing.
func (b *builder) glue(s string) error {
	n := len(b.runs)
	return b.write(s, n > 0 && b.runs[n-1].chat)
}

// fill adds n times the same text.
func (b *builder) fill(s string, n int, p prov) error {
	if n <= 0 || s == "" {
		return nil
	}
	if n > math.MaxInt32/len(s) {
		return b.st.alloc(math.MaxInt32)
	}
	if err := b.grow(n * len(s)); err != nil {
		return err
	}
	block := max(1, min(n, 1024/len(s)))
	repeated := strings.Repeat(s, block)
	for ; n > 0; n -= block {
		if err := b.write(repeated[:min(n, block)*len(s)], p != ofTemplate); err != nil {
			return err
		}
	}
	return nil
}

// text adds a string.
func (b *builder) text(v Value) error {
	if v.prov != mixed {
		return b.write(v.str, v.prov == ofChat)
	}
	if err := b.grow(len(v.str)); err != nil {
		return err
	}
	for s, chat := range v.pieces() {
		if err := b.write(s, chat); err != nil {
			return err
		}
	}
	return nil
}

// value adds what Python's str makes of a value.
func (b *builder) value(v Value) error {
	switch v.kind {
	case kindString:
		return b.text(v)
	case kindUndefined, kindMissing:
		return nil
	}
	return b.repr(v, 0)
}

// done is the text. The builder must not be used afterwards.
func (b *builder) done() Value {
	out := Value{kind: kindString, str: b.buf.String()}
	switch len(b.runs) {
	case 0:
	case 1:
		out.prov = provOf(b.runs[0].chat)
	default:
		out.prov, out.ref = mixed, &marks{runs: b.runs}
	}
	return out
}
