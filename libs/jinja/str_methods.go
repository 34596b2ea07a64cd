package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// strMethods are the methods of strings. encode, translate and maketrans, which lead to
// bytes and code points, are left out.
func strMethods() map[string]*builtin {
	return table(
		define("capitalize", func(st *state, a []Value) (Value, error) { return st.capitalize(a[0]) }),
		define("casefold", func(st *state, a []Value) (Value, error) { return st.recase(a[0], caseFold) }),
		define("lower", func(st *state, a []Value) (Value, error) { return st.recase(a[0], caseLower) }),
		define("upper", func(st *state, a []Value) (Value, error) { return st.recase(a[0], caseUpper) }),
		define("swapcase", func(st *state, a []Value) (Value, error) { return st.recase(a[0], caseSwap) }),
		define("title", func(st *state, a []Value) (Value, error) { return st.title(a[0]) }),
		define("strip chars= *", func(st *state, a []Value) (Value, error) { return st.strip(a[0], a[1], true, true) }),
		define("lstrip chars= *", func(st *state, a []Value) (Value, error) { return st.strip(a[0], a[1], true, false) }),
		define("rstrip chars= *", func(st *state, a []Value) (Value, error) { return st.strip(a[0], a[1], false, true) }),
		define("startswith prefix, start=, end= *", func(st *state, a []Value) (Value, error) { return st.affixed(a, strings.HasPrefix) }),
		define("endswith suffix, start=, end= *", func(st *state, a []Value) (Value, error) { return st.affixed(a, strings.HasSuffix) }),
		define("removeprefix prefix *", removePrefix),
		define("removesuffix suffix *", removeSuffix),
		define("split sep=, maxsplit=", func(st *state, a []Value) (Value, error) { return st.split(a, false) }),
		define("rsplit sep=, maxsplit=", func(st *state, a []Value) (Value, error) { return st.split(a, true) }),
		define("splitlines keepends=", splitLines),
		define("partition sep *", func(st *state, a []Value) (Value, error) { return st.partition(a, strings.Index, false) }),
		define("rpartition sep *", func(st *state, a []Value) (Value, error) { return st.partition(a, strings.LastIndex, true) }),
		define("join iterable *", func(st *state, a []Value) (Value, error) { return st.joinStrings(a[0], a[1]) }),
		define("replace old, new, count= *", func(st *state, a []Value) (Value, error) { return st.replace(a) }),
		define("find sub, start=, end= *", func(st *state, a []Value) (Value, error) { return st.find(a, strings.Index, false) }),
		define("rfind sub, start=, end= *", func(st *state, a []Value) (Value, error) { return st.find(a, strings.LastIndex, false) }),
		define("index sub, start=, end= *", func(st *state, a []Value) (Value, error) { return st.find(a, strings.Index, true) }),
		define("rindex sub, start=, end= *", func(st *state, a []Value) (Value, error) { return st.find(a, strings.LastIndex, true) }),
		define("count sub, start=, end= *", func(st *state, a []Value) (Value, error) { return st.count(a) }),
		define("center width, fillchar= *", func(st *state, a []Value) (Value, error) { return st.pad(a, padCenter) }),
		define("ljust width, fillchar= *", func(st *state, a []Value) (Value, error) { return st.pad(a, padRight) }),
		define("rjust width, fillchar= *", func(st *state, a []Value) (Value, error) { return st.pad(a, padLeft) }),
		define("zfill width *", func(st *state, a []Value) (Value, error) { return st.zfill(a) }),
		define("expandtabs tabsize=", func(st *state, a []Value) (Value, error) { return st.expandTabs(a) }),
		define("isalnum *", every(isAlnum)),
		define("isalpha *", every(unicode.IsLetter)),
		define("isdecimal *", every(unicode.IsDigit)),
		define("isdigit *", every(isDigitRune)),
		define("isnumeric *", every(unicode.IsNumber)),
		define("isspace *", every(isSpace)),
		define("isascii *", func(st *state, a []Value) (Value, error) {
			return Bool(strings.IndexFunc(a[0].str, func(r rune) bool { return r >= utf8.RuneSelf }) < 0), st.scan(len(a[0].str))
		}),
		define("isprintable *", func(st *state, a []Value) (Value, error) {
			return Bool(strings.IndexFunc(a[0].str, func(r rune) bool { return !unicode.IsPrint(r) }) < 0), st.scan(len(a[0].str))
		}),
		define("isidentifier *", func(st *state, a []Value) (Value, error) {
			s := a[0].str
			first, _ := utf8.DecodeRuneInString(s)
			return Bool(s != "" && isLetter(first) && nameLen(s) == len(s)), st.scan(len(s))
		}),
		define("islower *", func(st *state, a []Value) (Value, error) { return st.cased(a[0], unicode.IsLower) }),
		define("isupper *", func(st *state, a []Value) (Value, error) { return st.cased(a[0], unicode.IsUpper) }),
		define("istitle *", isTitle),
		&builtin{name: "format", free: func(st *state, self Value, a args) (Value, error) { return st.strFormat(self, a) }},
		define("format_map mapping *", func(st *state, a []Value) (Value, error) {
			if a[1].kind != kindDict {
				return Value{}, typeErrorf("format_map() argument must be a mapping, not %s", a[1].typeName())
			}
			return st.strFormatMap(a[0], a[1].ref.(*dict))
		}),
	)
}

// wantString is the error of a method that wants strings.
func wantString(method string, v Value) error {
	if v.isString() {
		return nil
	}
	return typeErrorf("%s must be str, not %s", method, v.typeName())
}

// every makes a method of a property that all characters must have, of at least one.
func every(is func(rune) bool) func(st *state, a []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		s := a[0].str
		return Bool(s != "" && strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0), st.scan(len(s))
	}
}

func isAlnum(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// isDigitRune is Python's str.isdigit: decimals and the like of superscripts.
func isDigitRune(r rune) bool {
	switch {
	case unicode.IsDigit(r), r == '²', r == '³', r == '¹', 0x2070 <= r && r <= 0x2079 && r != 0x2071, 0x2080 <= r && r <= 0x2089:
		return true
	case 0x2460 <= r && r <= 0x2468, 0x2474 <= r && r <= 0x247c, 0x2488 <= r && r <= 0x2490, 0x24f5 <= r && r <= 0x24fd:
		return true
	}
	return r == 0x24ea || r == 0x24ff || 0x2776 <= r && r <= 0x277e || 0x2780 <= r && r <= 0x2788 || 0x278a <= r && r <= 0x2792
}

// stripper says which characters strip takes away.
func (st *state) stripper(chars Value) (func(rune) bool, error) {
	if chars.absent() {
		return isSpace, nil
	}
	if err := wantString("strip arg", chars); err != nil {
		return nil, err
	}
	return func(r rune) bool { return strings.ContainsRune(chars.str, r) }, nil
}

func (st *state) strip(v, chars Value, left, right bool) (Value, error) {
	is, err := st.stripper(chars)
	if err != nil {
		return Value{}, err
	}
	from, to := 0, len(v.str)
	for left && from < to {
		r, n := utf8.DecodeRuneInString(v.str[from:to])
		if !is(r) {
			break
		}
		from += n
	}
	for right && from < to {
		r, n := utf8.DecodeLastRuneInString(v.str[from:to])
		if !is(r) {
			break
		}
		to -= n
	}
	if from == 0 && to == len(v.str) {
		return v, nil
	}
	work := len(v.str) - (to - from)
	return v.cut(from, to), st.step(1 + work>>2 + work*len(chars.str)>>5)
}

// window is the part of a string that start and end select, and the number of characters
// before it.
func (st *state) window(v, start, end Value) (part Value, before int, ok bool, err error) {
	if start.absent() && end.absent() {
		return v, 0, true, nil
	}
	if err := st.scan(len(v.str)); err != nil {
		return Value{}, 0, false, err
	}
	n := utf8.RuneCountInString(v.str)
	b, err := sliceBounds([3]Value{start, end}, n)
	if err != nil {
		return Value{}, 0, false, err
	}
	if first, _ := slicePart(start, 0); first > n {
		return Value{}, 0, false, nil // not even the empty string is there
	}
	from := byteAt(v.str, b.start, n == len(v.str))
	return v.cut(from, from+byteAt(v.str[from:], b.count, n == len(v.str))), b.start, b.start+b.count >= b.start, nil
}

func (st *state) affixed(a []Value, has func(s, affix string) bool) (Value, error) {
	v, _, ok, err := st.window(a[0], a[2], a[3])
	if err != nil || !ok {
		return Bool(false), err
	}
	if a[1].kind == kindTuple {
		for _, affix := range a[1].items() {
			if err := wantString("tuple for startswith", affix); err != nil {
				return Value{}, err
			}
			if has(v.str, affix.str) {
				return Bool(true), st.step(1)
			}
		}
		return Bool(false), st.step(len(a[1].items()))
	}
	if !a[1].isString() {
		return Value{}, typeErrorf("startswith first arg must be str or a tuple of str, not %s", a[1].typeName())
	}
	return Bool(has(v.str, a[1].str)), st.scan(len(a[1].str))
}

func removePrefix(_ *state, a []Value) (Value, error) {
	if err := wantString("removeprefix() argument", a[1]); err != nil {
		return Value{}, err
	}
	if strings.HasPrefix(a[0].str, a[1].str) {
		return a[0].cut(len(a[1].str), len(a[0].str)), nil
	}
	return a[0], nil
}

func removeSuffix(_ *state, a []Value) (Value, error) {
	if err := wantString("removesuffix() argument", a[1]); err != nil {
		return Value{}, err
	}
	if strings.HasSuffix(a[0].str, a[1].str) {
		return a[0].cut(0, len(a[0].str)-len(a[1].str)), nil
	}
	return a[0], nil
}

func (st *state) find(a []Value, index func(s, sub string) int, must bool) (Value, error) {
	if err := wantString("find() argument", a[1]); err != nil {
		return Value{}, err
	}
	v, before, ok, err := st.window(a[0], a[2], a[3])
	if err != nil {
		return Value{}, err
	}
	if err := st.scan(2 * len(v.str)); err != nil {
		return Value{}, err
	}
	at := -1
	if ok {
		at = index(v.str, a[1].str)
	}
	if at < 0 {
		if must {
			return Value{}, valueError("substring not found")
		}
		return Int(-1), nil
	}
	return smallInt(int64(before+utf8.RuneCountInString(v.str[:at])), a[0].prov.join(ofTemplate)), nil
}

func (st *state) count(a []Value) (Value, error) {
	if err := wantString("count() argument", a[1]); err != nil {
		return Value{}, err
	}
	v, _, ok, err := st.window(a[0], a[2], a[3])
	if err != nil || !ok {
		return Int(0), err
	}
	n := strings.Count(v.str, a[1].str)
	return smallInt(int64(n), a[0].prov.join(ofTemplate)), st.scan(2*len(v.str) + n)
}

func (st *state) cased(v Value, is func(rune) bool) (Value, error) {
	found := false
	for _, r := range v.str {
		switch {
		case is(r):
			found = true
		case unicode.IsLower(r), unicode.IsUpper(r), unicode.IsTitle(r):
			return Bool(false), st.scan(len(v.str))
		}
	}
	return Bool(found), st.scan(4 * len(v.str))
}

func isTitle(st *state, a []Value) (Value, error) {
	found, inWord := false, false
	for _, r := range a[0].str {
		upper := unicode.IsUpper(r) || unicode.IsTitle(r)
		switch {
		case upper && inWord, unicode.IsLower(r) && !inWord:
			return Bool(false), st.scan(len(a[0].str))
		case upper, unicode.IsLower(r):
			found, inWord = true, true
		default:
			inWord = false
		}
	}
	return Bool(found), st.scan(4 * len(a[0].str))
}
