package jinja

import (
	"strings"
	"unicode/utf8"
)

// split is str.split and, fromEnd, str.rsplit.
func (st *state) split(a []Value, fromEnd bool) (Value, error) {
	v, most := a[0], -1
	if a[2].given() {
		if !a[2].isInt() {
			return Value{}, typeErrorf("'%s' object cannot be interpreted as an integer", a[2].typeName())
		}
		most, _ = slicePart(a[2], -1)
	}
	if err := st.scan(2 * len(v.str)); err != nil {
		return Value{}, err
	}
	var parts []Value
	var err error
	switch {
	case a[1].absent() && fromEnd:
		parts, err = st.rsplitSpace(v, most)
	case a[1].absent():
		parts, err = st.splitSpace(v, most)
	case !a[1].isString():
		return Value{}, typeErrorf("must be str or None, not %s", a[1].typeName())
	case a[1].str == "":
		return Value{}, valueError("empty separator")
	case fromEnd:
		parts, err = st.rsplitBy(v, a[1].str, most)
	default:
		parts, err = st.splitBy(v, a[1].str, most)
	}
	return List(parts), err
}

func (st *state) splitBy(v Value, sep string, most int) (parts []Value, err error) {
	from := 0
	for most != 0 {
		i := strings.Index(v.str[from:], sep)
		if i < 0 {
			break
		}
		if parts, err = st.push(parts, v.cut(from, from+i)); err != nil {
			return nil, err
		}
		from += i + len(sep)
		most--
	}
	return st.push(parts, v.cut(from, len(v.str)))
}

func (st *state) rsplitBy(v Value, sep string, most int) (parts []Value, err error) {
	to := len(v.str)
	for most != 0 {
		i := strings.LastIndex(v.str[:to], sep)
		if i < 0 {
			break
		}
		if parts, err = st.push(parts, v.cut(i+len(sep), to)); err != nil {
			return nil, err
		}
		to = i
		most--
	}
	parts, err = st.push(parts, v.cut(0, to))
	reverse(parts)
	return parts, err
}

func reverse(items []Value) {
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
}

func (st *state) splitSpace(v Value, most int) (parts []Value, err error) {
	from := 0
	for {
		from += len(v.str[from:]) - len(strings.TrimLeftFunc(v.str[from:], isSpace))
		if from == len(v.str) {
			return parts, nil
		}
		end := strings.IndexFunc(v.str[from:], isSpace)
		if end < 0 {
			return st.push(parts, v.cut(from, len(v.str)))
		}
		if most == 0 {
			return st.push(parts, v.cut(from, len(v.str)))
		}
		if parts, err = st.push(parts, v.cut(from, from+end)); err != nil {
			return nil, err
		}
		from += end
		most--
	}
}

func (st *state) rsplitSpace(v Value, most int) (parts []Value, err error) {
	to := len(v.str)
	for {
		to = len(strings.TrimRightFunc(v.str[:to], isSpace))
		if to == 0 {
			break
		}
		i := strings.LastIndexFunc(v.str[:to], isSpace)
		from := 0
		if i >= 0 {
			_, n := utf8.DecodeRuneInString(v.str[i:])
			from = i + n
		}
		if most == 0 && i >= 0 {
			from = 0
		}
		if parts, err = st.push(parts, v.cut(from, to)); err != nil {
			return nil, err
		}
		if most == 0 || i < 0 {
			break
		}
		to = from
		most--
	}
	reverse(parts)
	return parts, nil
}

// lineEnd is where the first line of s ends, and where the next begins.
func lineEnd(s string) (end, next int) {
	for i, r := range s {
		switch r {
		case '\r':
			if strings.HasPrefix(s[i:], "\r\n") {
				return i, i + 2
			}
			return i, i + 1
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
			return i, i + utf8.RuneLen(r)
		}
	}
	return len(s), len(s)
}

// lines cuts a string into lines as Python does.
func (st *state) lines(v Value, keepEnds bool) (parts []Value, err error) {
	if err := st.scan(8 * len(v.str)); err != nil {
		return nil, err
	}
	for from := 0; from < len(v.str); {
		end, next := lineEnd(v.str[from:])
		if keepEnds {
			end = next
		}
		if parts, err = st.push(parts, v.cut(from, from+end)); err != nil {
			return nil, err
		}
		from += next
	}
	return parts, nil
}

func splitLines(st *state, a []Value) (Value, error) {
	parts, err := st.lines(a[0], a[1].truth())
	return List(parts), err
}

func (st *state) partition(a []Value, index func(s, sep string) int, last bool) (Value, error) {
	if err := wantString("partition() argument", a[1]); err != nil {
		return Value{}, err
	}
	v, sep := a[0], a[1].str
	if sep == "" {
		return Value{}, valueError("empty separator")
	}
	if err := st.alloc(4*valueBytes + len(v.str)/32); err != nil {
		return Value{}, err
	}
	i := index(v.str, sep)
	switch {
	case i >= 0:
		return tuple(v.cut(0, i), v.cut(i, i+len(sep)), v.cut(i+len(sep), len(v.str))), nil
	case last:
		return tuple(String(""), String(""), v), nil
	}
	return tuple(v, String(""), String("")), nil
}
