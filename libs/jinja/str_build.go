package jinja

import (
	"math"
	"strings"
	"unicode/utf8"
)

// replace is str.replace.
func (st *state) replace(a []Value) (Value, error) {
	v, from, to := a[0], a[1], a[2]
	for _, s := range []Value{from, to} {
		if err := wantString("replace() argument", s); err != nil {
			return Value{}, err
		}
	}
	most := math.MaxInt
	if a[3].given() {
		if !a[3].isInt() {
			return Value{}, typeErrorf("'%s' object cannot be interpreted as an integer", a[3].typeName())
		}
		if n, _ := slicePart(a[3], 0); n >= 0 {
			most = n
		}
	}
	if err := st.scan(2 * len(v.str)); err != nil {
		return Value{}, err
	}
	if from.str == "" {
		return st.interleave(v, to, most)
	}
	if most == 0 || !strings.Contains(v.str, from.str) {
		return v, nil
	}
	b := builder{st: st}
	at := 0
	for ; most > 0; most-- {
		i := strings.Index(v.str[at:], from.str)
		if i < 0 {
			break
		}
		if err := st.step(1); err != nil {
			return Value{}, err
		}
		if err := b.text(v.cut(at, at+i)); err != nil {
			return Value{}, err
		}
		if err := b.text(to); err != nil {
			return Value{}, err
		}
		at += i + len(from.str)
	}
	err := b.text(v.cut(at, len(v.str)))
	return b.done(), err
}

// interleave is what replacing the empty string does.
func (st *state) interleave(v, to Value, most int) (Value, error) {
	b := builder{st: st}
	at := 0
	for most > 0 {
		if err := st.step(1); err != nil {
			return Value{}, err
		}
		if err := b.text(to); err != nil {
			return Value{}, err
		}
		most--
		if at == len(v.str) {
			return b.done(), nil
		}
		_, n := utf8.DecodeRuneInString(v.str[at:])
		if err := b.text(v.cut(at, at+n)); err != nil {
			return Value{}, err
		}
		at += n
	}
	err := b.text(v.cut(at, len(v.str)))
	return b.done(), err
}

// joinStrings is str.join.
func (st *state) joinStrings(sep, over Value) (Value, error) {
	it, err := st.iterate(over)
	if err != nil {
		return Value{}, typeError("can only join an iterable")
	}
	b := builder{st: st}
	for i := 0; ; i++ {
		v, ok, err := it.next(st)
		if err != nil {
			return Value{}, err
		}
		if !ok {
			return b.done(), nil
		}
		if !v.isString() {
			return Value{}, typeErrorf("sequence item %d: expected str instance, %s found", i, v.typeName())
		}
		if sep.safe && !v.safe && strings.ContainsAny(v.str, htmlSpecial) {
			return Value{}, unsafeUse("join")
		}
		if i > 0 {
			if err := b.text(sep); err != nil {
				return Value{}, err
			}
		}
		if err := b.text(v); err != nil {
			return Value{}, err
		}
	}
}

type padding uint8

const (
	padLeft padding = iota
	padRight
	padCenter
)

// pad is center, ljust and rjust.
func (st *state) pad(a []Value, how padding) (Value, error) {
	if !a[1].isInt() {
		return Value{}, typeErrorf("'%s' object cannot be interpreted as an integer", a[1].typeName())
	}
	fill := String(" ")
	if a[2].given() {
		fill = a[2]
		if !fill.isString() || utf8.RuneCountInString(fill.str) != 1 {
			return Value{}, typeError("The fill character must be exactly one character long")
		}
	}
	width, _ := slicePart(a[1], 0)
	return st.padTo(a[0], width, fill, how)
}

func (st *state) padTo(v Value, width int, fill Value, how padding) (Value, error) {
	if err := st.scan(len(v.str)); err != nil {
		return Value{}, err
	}
	missing := width - utf8.RuneCountInString(v.str)
	if missing <= 0 {
		return v, nil
	}
	left, right := missing, 0
	switch how {
	case padRight:
		left, right = 0, missing
	case padCenter:
		left = missing/2 + missing&width&1 // as CPython rounds
		right = missing - left
	}
	b := builder{st: st}
	if err := b.fill(fill.str, left, fill.prov); err != nil {
		return Value{}, err
	}
	if err := b.text(v); err != nil {
		return Value{}, err
	}
	err := b.fill(fill.str, right, fill.prov)
	return b.done(), err
}

func (st *state) zfill(a []Value) (Value, error) {
	if !a[1].isInt() {
		return Value{}, typeErrorf("'%s' object cannot be interpreted as an integer", a[1].typeName())
	}
	width, _ := slicePart(a[1], 0)
	v := a[0]
	if v.str == "" || v.str[0] != '-' && v.str[0] != '+' {
		return st.padTo(v, width, String("0"), padLeft)
	}
	rest, err := st.padTo(v.cut(1, len(v.str)), width-1, String("0"), padLeft)
	if err != nil {
		return Value{}, err
	}
	return st.join2(v.cut(0, 1), rest)
}

func (st *state) expandTabs(a []Value) (Value, error) {
	size := 8
	if a[1].given() {
		if !a[1].isInt() {
			return Value{}, typeErrorf("'%s' object cannot be interpreted as an integer", a[1].typeName())
		}
		size, _ = slicePart(a[1], 8)
	}
	b, column, from := builder{st: st}, 0, 0
	v := a[0]
	if err := st.scan(8 * len(v.str)); err != nil {
		return Value{}, err
	}
	for i, r := range v.str {
		switch r {
		case '\t':
			if err := b.text(v.cut(from, i)); err != nil {
				return Value{}, err
			}
			from = i + 1
			if size > 0 {
				n := size - column%size
				column += n
				if err := b.fill(" ", n, v.cut(i, i+1).prov); err != nil {
					return Value{}, err
				}
			}
		case '\n', '\r':
			column = 0
		default:
			column++
		}
	}
	err := b.text(v.cut(from, len(v.str)))
	return b.done(), err
}
