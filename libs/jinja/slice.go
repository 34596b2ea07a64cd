package jinja

import (
	"math"
	"unicode/utf8"
)

// sliceNode is a[from:to:step].
type sliceNode struct {
	of             expr
	from, to, step expr // may be nil
}

func (n *sliceNode) eval(f *frame) (Value, error) {
	v, err := n.of.eval(f)
	if err != nil {
		return Value{}, err
	}
	var parts [3]Value
	for i, e := range []expr{n.from, n.to, n.step} {
		if e == nil {
			continue
		}
		if parts[i], err = e.eval(f); err != nil {
			return Value{}, err
		}
	}
	return f.st.slice(v, parts)
}

// bounds are a slice's: where it starts, how many items it takes, how far apart, and what it
// does not reach.
type bounds struct{ start, count, step, end int }

// sliceBounds applies a slice to a sequence of n items, as Python's slice.indices.
func sliceBounds(parts [3]Value, n int) (bounds, error) {
	step, err := slicePart(parts[2], 1)
	if err != nil {
		return bounds{}, err
	}
	if step == 0 {
		return bounds{}, valueError("slice step cannot be zero")
	}
	low, high := 0, n
	start, end := 0, n
	if step < 0 {
		low, high = -1, n-1
		start, end = n-1, -1
	}
	clamp := func(v Value, otherwise int) (int, error) {
		if v.absent() {
			return otherwise, nil
		}
		i, err := slicePart(v, 0)
		if i < 0 {
			i += n
		}
		return min(max(i, low), high), err
	}
	if start, err = clamp(parts[0], start); err != nil {
		return bounds{}, err
	}
	if end, err = clamp(parts[1], end); err != nil {
		return bounds{}, err
	}
	r := span{start: int64(start), stop: int64(end), step: int64(step)}
	return bounds{start, r.len(), step, end}, nil
}

// slicePart reads a bound; numbers far out of range are as good as any other.
func slicePart(v Value, otherwise int) (int, error) {
	const far = math.MaxInt32
	switch {
	case v.absent():
		return otherwise, nil
	case v.isBig():
		return far * bigOf(v).Sign(), nil
	case v.isInt():
		return int(min(max(v.int(), -far), far)), nil
	}
	return 0, typeError("slice indices must be integers or None or have an __index__ method")
}

func (st *state) slice(v Value, parts [3]Value) (Value, error) {
	switch v.kind {
	case kindList, kindTuple:
		return st.sliceList(v, parts)
	case kindString:
		return st.sliceString(v, parts)
	case kindRange:
		r := v.ref.(*span)
		b, err := sliceBounds(parts, r.len())
		return Value{kind: kindRange, ref: &span{r.start + int64(b.start)*r.step, r.start + int64(b.end)*r.step, r.step * int64(b.step), r.prov}}, err
	case kindUndefined, kindMissing:
		return Value{}, useOf(v)
	case kindDict:
		return Value{}, typeError("unhashable type: 'slice'")
	}
	return Value{}, typeErrorf("'%s' object is not subscriptable", v.typeName())
}

func (st *state) sliceList(v Value, parts [3]Value) (Value, error) {
	items := v.items()
	b, err := sliceBounds(parts, len(items))
	if err != nil {
		return Value{}, err
	}
	if b.step == 1 { // lists never change, so a part of one can share its memory
		return Value{kind: v.kind, ref: &list{items: items[b.start : b.start+b.count : b.start+b.count]}}, st.alloc(valueBytes)
	}
	if err := st.allocValues(b.count + 1); err != nil {
		return Value{}, err
	}
	out := make([]Value, b.count)
	for i := range out {
		out[i] = items[b.start+i*b.step]
	}
	return Value{kind: v.kind, ref: &list{items: out}}, nil
}

func (st *state) sliceString(v Value, parts [3]Value) (Value, error) {
	if err := st.scan(len(v.str)); err != nil {
		return Value{}, err
	}
	n := utf8.RuneCountInString(v.str)
	b, err := sliceBounds(parts, n)
	if err != nil {
		return Value{}, err
	}
	if b.count == 0 {
		return String(""), nil
	}
	ascii := n == len(v.str)
	if b.step == 1 {
		from := byteAt(v.str, b.start, ascii)
		return v.cut(from, from+byteAt(v.str[from:], b.count, ascii)), nil
	}
	return st.stride(v, b, n)
}

// stride takes characters that are apart, or backwards.
func (st *state) stride(v Value, b bounds, n int) (Value, error) {
	if err := st.alloc(8 * (n + 1)); err != nil {
		return Value{}, err
	}
	at := make([]int, 0, n+1)
	for i := range v.str {
		at = append(at, i)
	}
	at = append(at, len(v.str))
	out := builder{st: st}
	for i := range b.count {
		if err := st.step(1); err != nil {
			return Value{}, err
		}
		c := b.start + i*b.step
		if err := out.text(v.cut(at[c], at[c+1])); err != nil {
			return Value{}, err
		}
	}
	return out.done(), nil
}
