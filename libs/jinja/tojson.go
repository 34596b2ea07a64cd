package jinja

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// toJSON is the filter tojson of Hugging Face: Python's json.dumps, without escapes for
// what is not ASCII unless asked.
func toJSON(st *state, a []Value) (Value, error) {
	w := jsonWriter{b: builder{st: st}, ascii: a[1].truth(), sorted: a[4].truth(), item: String(", "), key: String(": ")}
	switch indent := a[2]; {
	case indent.absent():
	case indent.isString():
		w.newline, w.indent = true, indent
	case indent.isInt():
		w.newline = true
		n, _ := slicePart(indent, 0)
		w.repeat, w.indent = max(n, 0), String(" ")
	default:
		return Value{}, typeErrorf("can't multiply sequence by non-int of type '%s'", indent.typeName())
	}
	if w.newline {
		w.item = String(",")
		if w.indent.str != " " || a[2].isString() {
			w.repeat = 1
		}
	}
	if !a[3].absent() {
		pair, err := st.list(a[3])
		if err != nil {
			return Value{}, err
		}
		if len(pair) != 2 || !pair[0].isString() || !pair[1].isString() {
			return Value{}, valueError("separators must be two strings")
		}
		w.item, w.key = pair[0], pair[1]
	}
	if err := w.value(a[0], 0); err != nil {
		return Value{}, err
	}
	return w.b.done(), nil
}

type jsonWriter struct {
	b             builder
	ascii, sorted bool
	item, key     Value
	newline       bool
	indent        Value
	repeat        int // of indent for each level
}

func (w *jsonWriter) value(v Value, depth int) error {
	if depth > maxValueDepth {
		return tooDeep()
	}
	if err := w.b.st.step(1); err != nil {
		return err
	}
	switch v.kind {
	case kindString:
		return w.text(v)
	case kindNone, kindBool, kindInt, kindFloat:
		return w.b.write(jsonScalar(v), v.prov != ofTemplate)
	case kindList, kindTuple:
		items := v.items()
		return w.container("[", "]", len(items), depth, func(i int) error { return w.value(items[i], depth+1) })
	case kindDict:
		return w.object(v.ref.(*dict), depth)
	}
	return typeErrorf("Object of type %s is not JSON serializable", v.typeName())
}

func jsonScalar(v Value) string {
	switch {
	case v.kind == kindNone:
		return "null"
	case v.kind == kindBool && v.num != 0:
		return "true"
	case v.kind == kindBool:
		return "false"
	case v.kind == kindFloat && math.IsNaN(v.float()):
		return "NaN"
	case v.kind == kindFloat && math.IsInf(v.float(), 1):
		return "Infinity"
	case v.kind == kindFloat && math.IsInf(v.float(), -1):
		return "-Infinity"
	}
	return v.plain()
}

func (w *jsonWriter) object(d *dict, depth int) error {
	entries := d.entries
	if w.sorted {
		if err := w.b.st.alloc(len(entries) * entryBytes); err != nil {
			return err
		}
		entries = slices.Clone(entries)
		var err error
		slices.SortStableFunc(entries, func(a, b entry) int {
			c, e := w.b.st.cmp(a.key, b.key)
			if err == nil {
				err = e
			}
			return c
		})
		if err != nil {
			return err
		}
	}
	return w.container("{", "}", len(entries), depth, func(i int) error {
		if err := w.name(entries[i].key); err != nil {
			return err
		}
		if err := w.between(w.key); err != nil {
			return err
		}
		return w.value(entries[i].value, depth+1)
	})
}

func (w *jsonWriter) name(key Value) error {
	switch key.kind {
	case kindString:
		return w.text(key)
	case kindNone, kindBool, kindInt, kindFloat:
		return w.text(Value{kind: kindString, str: jsonScalar(key), prov: key.prov})
	}
	return typeErrorf("keys must be str, int, float, bool or None, not %s", key.typeName())
}

// between adds a separator, which counts to what is before it if it is the template's.
func (w *jsonWriter) between(sep Value) error {
	if sep.prov == ofTemplate {
		return w.b.glue(sep.str)
	}
	return w.b.text(sep)
}

func (w *jsonWriter) container(open, end string, n, depth int, item func(int) error) error {
	if err := w.b.glue(open); err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if err := w.between(w.item); err != nil {
				return err
			}
		}
		if err := w.line(depth + 1); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		if err := w.line(depth); err != nil {
			return err
		}
	}
	return w.b.glue(end)
}

func (w *jsonWriter) line(depth int) error {
	if !w.newline {
		return nil
	}
	if err := w.b.glue("\n"); err != nil {
		return err
	}
	if w.repeat > math.MaxInt32/maxValueDepth {
		return w.b.st.alloc(math.MaxInt)
	}
	chat := len(w.b.runs) > 0 && w.b.runs[len(w.b.runs)-1].chat || w.indent.prov != ofTemplate
	return w.b.fill(w.indent.str, w.repeat*depth, provOf(chat))
}

func (w *jsonWriter) text(v Value) error {
	if err := w.b.glue(`"`); err != nil {
		return err
	}
	for s, chat := range v.pieces() {
		if err := w.escaped(s, chat); err != nil {
			return err
		}
	}
	return w.b.glue(`"`)
}

func (w *jsonWriter) escaped(s string, chat bool) error {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		plain := ' ' <= c && c < 0x7f && c != '"' && c != '\\' || c >= 0x7f && !w.ascii
		if plain {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if err := w.b.st.step(1); err != nil {
			return err
		}
		if err := w.b.write(s[start:i], chat); err != nil {
			return err
		}
		if err := w.b.write(jsonEscape(r), chat); err != nil {
			return err
		}
		i += n
		start = i
	}
	return w.b.write(s[start:], chat)
}

func jsonEscape(r rune) string {
	if i := strings.IndexRune("\"\\\n\r\t\b\f", r); i >= 0 {
		return `\` + `"\nrtbf`[i:i+1]
	}
	if r > 0xffff {
		r -= 0x10000
		return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
