package jinja

import (
	"strings"
	"unicode/utf8"
)

// filters are Jinja's, by name. Left out are those for HTML and URLs, random and pprint.
func filters() map[string]*builtin {
	return table(append(append(textFilters(), listFilters()...), numberFilters()...)...)
}

// onText makes a filter of what is done with the text of any value.
func onText(do func(st *state, s Value) (Value, error)) func(st *state, a []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		s, err := st.str(a[0])
		if err != nil {
			return Value{}, err
		}
		return do(st, s)
	}
}

func textFilters() []*builtin {
	return []*builtin{
		define("upper", onText(func(st *state, s Value) (Value, error) { return st.recase(s, caseUpper) })),
		define("lower", onText(func(st *state, s Value) (Value, error) { return st.recase(s, caseLower) })),
		define("capitalize", onText((*state).capitalize)),
		define("title", onText(titleFilter)),
		define("string", onText(func(_ *state, s Value) (Value, error) { return s, nil })),
		define("safe", onText(func(_ *state, s Value) (Value, error) {
			s.safe = true
			return s, nil
		})),
		define("escape|e", onText(escapeHTML)),
		define("trim chars=", func(st *state, a []Value) (Value, error) {
			s, err := st.str(a[0])
			if err != nil {
				return Value{}, err
			}
			return st.strip(s, a[1], true, true)
		}),
		define("replace old, new, count=", replaceFilter),
		define("center width=", func(st *state, a []Value) (Value, error) {
			s, err := st.str(a[0])
			if err != nil {
				return Value{}, err
			}
			if !a[1].given() {
				a[1] = Int(80)
			}
			return st.pad([]Value{s, a[1], {}}, padCenter)
		}),
		define("indent width=, first=, blank=", indentFilter),
		define("truncate length=, killwords=, end=, leeway=", truncateFilter),
		define("wordcount", onText(wordCount)),
		{name: "format", free: func(st *state, self Value, a args) (Value, error) {
			s, err := st.str(self)
			if err != nil {
				return Value{}, err
			}
			return st.formatArgs(s, a)
		}},
		define("tojson ensure_ascii=, indent=, separators=, sort_keys=", toJSON),
		define("default|d default_value=, boolean=", func(_ *state, a []Value) (Value, error) {
			if a[0].kind != kindUndefined && a[0].kind != kindMissing && (!a[2].truth() || a[0].truth()) {
				return a[0], nil
			}
			if !a[1].given() {
				return String(""), nil
			}
			return a[1], nil
		}),
		define("attr name", func(st *state, a []Value) (Value, error) {
			if !a[1].isString() {
				return Value{}, typeErrorf("attribute name must be string, not '%s'", a[1].typeName())
			}
			found, ok, err := st.attribute(a[0], a[1].str)
			if ok || err != nil {
				return found, err
			}
			return Value{kind: kindUndefined, ref: &undefined{owner: a[0].ownerName(), name: a[1].str}}, nil
		}),
	}
}

// titleFilter begins a word after blanks, brackets and dashes, unlike the method title.
func titleFilter(st *state, s Value) (Value, error) {
	begins := true
	return st.mapText(s, func(_ string, _ int, r rune, b []byte) []byte {
		first := begins
		begins = isSpace(r) || strings.ContainsRune("-({[<", r)
		if first {
			return caseUpper(r, b)
		}
		return caseLower(r, b)
	})
}

func escapeHTML(st *state, s Value) (Value, error) {
	if s.safe {
		return s, nil
	}
	out, err := st.mapText(s, func(_ string, _ int, r rune, b []byte) []byte {
		switch r {
		case '&':
			return append(b, "&amp;"...)
		case '<':
			return append(b, "&lt;"...)
		case '>':
			return append(b, "&gt;"...)
		case '\'':
			return append(b, "&#39;"...)
		case '"':
			return append(b, "&#34;"...)
		}
		return utf8.AppendRune(b, r)
	})
	out.safe = true
	return out, err
}

func replaceFilter(st *state, a []Value) (Value, error) {
	var err error
	for i := range 3 {
		if a[i], err = st.str(a[i]); err != nil {
			return Value{}, err
		}
	}
	if a[3].isNone() {
		a[3] = Value{}
	}
	return st.replace(a)
}

func indentFilter(st *state, a []Value) (Value, error) {
	s := a[0]
	if !s.isString() {
		if s.kind == kindUndefined {
			return Value{}, useOf(s)
		}
		return Value{}, typeErrorf("unsupported operand type(s) for +=: '%s' and 'str'", s.typeName())
	}
	indent := String("    ")
	var err error
	switch {
	case a[1].isString():
		indent = a[1]
	case a[1].given():
		if indent, err = multiply(st, String(" "), a[1]); err != nil {
			return Value{}, err
		}
	}
	lines, err := st.lines(s, false)
	if err != nil {
		return Value{}, err
	}
	if len(lines) == 0 || endsLine(s.str) {
		lines = append(lines, String("")) // Jinja adds a newline before it splits
	}
	b := builder{st: st}
	put := func(indent Value) error {
		if indent.prov == ofTemplate {
			return b.glue(indent.str)
		}
		return b.text(indent)
	}
	if a[2].truth() {
		if err := put(indent); err != nil {
			return Value{}, err
		}
	}
	for i, line := range lines {
		if i > 0 {
			if err := b.glue("\n"); err != nil {
				return Value{}, err
			}
			if line.str != "" || a[3].truth() {
				if err := put(indent); err != nil {
					return Value{}, err
				}
			}
		}
		if err := b.text(line); err != nil {
			return Value{}, err
		}
	}
	return b.done(), nil
}

// endsLine reports whether another line begins at the end of s. A carriage return there
// goes with the newline that Jinja adds.
func endsLine(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	end, _ := lineEnd(s[len(s)-n:])
	return end == 0 && r != '\r'
}

func truncateFilter(st *state, a []Value) (Value, error) {
	s, end := a[0], String("...")
	length, err := optionalInt(a[1], 255)
	if err != nil {
		return Value{}, err
	}
	leeway, err := optionalInt(a[4], 5)
	if err != nil {
		return Value{}, err
	}
	if a[3].given() {
		end = a[3]
	}
	if !end.isString() {
		return Value{}, typeErrorf("object of type '%s' has no len()", end.typeName())
	}
	ends := utf8.RuneCountInString(end.str)
	if length < ends || leeway < 0 {
		return Value{}, &pythonError{"AssertionError", "length or leeway is too small"}
	}
	n, err := st.length(s)
	if err != nil || n.int() <= int64(length+leeway) {
		return s, err
	}
	if !s.isString() {
		return Value{}, typeErrorf("'%s' cannot be truncated", s.typeName())
	}
	kept := s.cut(0, byteAt(s.str, length-ends, false))
	if !a[2].truth() {
		if i := strings.LastIndexByte(kept.str, ' '); i >= 0 {
			kept = kept.cut(0, i)
		}
	}
	return st.join2(kept, end)
}

// optionalInt is an argument that must be an integer if it is there.
func optionalInt(v Value, otherwise int) (int, error) {
	if v.absent() {
		return otherwise, nil
	}
	if !v.isInt() {
		return 0, typeErrorf("'%s' object cannot be interpreted as an integer", v.typeName())
	}
	return slicePart(v, 0)
}

func wordCount(st *state, s Value) (Value, error) {
	n, inWord := int64(0), false
	for _, r := range s.str {
		word := r == '_' || isAlnum(r)
		if word && !inWord {
			n++
		}
		inWord = word
	}
	return smallInt(n, s.prov.join(ofTemplate)), st.scan(8 * len(s.str))
}

// length is Python's len.
func (st *state) length(v Value) (Value, error) {
	n := 0
	switch v.kind {
	case kindString:
		n = utf8.RuneCountInString(v.str)
		return smallInt(int64(n), v.prov.join(ofTemplate)), st.scan(len(v.str))
	case kindList, kindTuple:
		n = len(v.items())
	case kindDict:
		n = v.ref.(*dict).len()
	case kindView:
		n = v.ref.(*view).d.len()
	case kindRange:
		n = v.ref.(*span).len()
	case kindUndefined, kindMissing:
	default:
		if l, ok := v.ref.(*loop); ok {
			n, err := l.size(st)
			return Int(int64(n)), err
		}
		return Value{}, typeErrorf("object of type '%s' has no len()", v.typeName())
	}
	return Int(int64(n)), nil
}
