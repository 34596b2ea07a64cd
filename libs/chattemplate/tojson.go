package chattemplate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// toJSON is the filter tojson of Hugging Face: Python's json.dumps with
// ensure_ascii=False. Its keyword arguments are indent, separators and sort_keys, which
// is refused; others change nothing.
func toJSON(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("tojson: want a value")
	}
	w := jsonWriter{item: ", ", key: ": ", indent: -1}
	if v, ok := named["indent"]; ok && v.IsInt() {
		w.indent, w.item = int(min(max(v.AsInt(), 0), maxIndent)), ","
	}
	if v, ok := named["separators"]; ok && v.IsList() {
		s := v.AsList().Items
		if len(s) != 2 || !s[0].IsString() || !s[1].IsString() {
			return jinja.Undefined(), errors.New("tojson: separators must be two strings")
		}
		w.item, w.key = s[0].AsString(), s[1].AsString()
	}
	if v, ok := named["sort_keys"]; ok && v.IsTruthy() {
		return jinja.Undefined(), errors.New("tojson: sort_keys is not supported")
	}
	if err := w.value(args[0], 0); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(w.out.String()), nil
}

type jsonWriter struct {
	out       strings.Builder
	item, key string
	indent    int // -1: all on one line
}

func (w *jsonWriter) value(v jinja.Value, depth int) error {
	if depth > maxValueDepth {
		return exceeded("a value that nests deeper than %d, or holds itself", maxValueDepth)
	}
	switch {
	case v.IsNone():
		w.out.WriteString("null")
	case v.IsBool():
		w.out.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		w.out.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		w.out.WriteString(pythonFloat(v.AsFloat()))
	case v.IsString():
		w.text(v.AsString())
	case v.IsList():
		items := v.AsList().Items
		return w.container('[', ']', len(items), depth, func(i int) error { return w.value(items[i], depth+1) })
	case v.IsDict():
		d := v.AsDict()
		return w.container('{', '}', len(d.Keys), depth, func(i int) error {
			w.text(d.Keys[i])
			w.out.WriteString(w.key)
			return w.value(d.Data[d.Keys[i]], depth+1)
		})
	default:
		return fmt.Errorf("tojson: %s cannot be written", v)
	}
	return nil
}

func (w *jsonWriter) container(open, end byte, n, depth int, item func(int) error) error {
	w.out.WriteByte(open)
	for i := range n {
		if i > 0 {
			w.out.WriteString(w.item)
		}
		w.line(depth + 1)
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		w.line(depth)
	}
	w.out.WriteByte(end)
	return nil
}

func (w *jsonWriter) line(depth int) {
	if w.indent >= 0 {
		w.out.WriteString("\n" + strings.Repeat(" ", w.indent*depth))
	}
}

func (w *jsonWriter) text(s string) {
	escapes := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}
	w.out.WriteByte('"')
	for _, r := range s {
		escape, ok := escapes[r]
		switch {
		case ok:
			w.out.WriteString(escape)
		case r < ' ':
			fmt.Fprintf(&w.out, `\u%04x`, r)
		default:
			w.out.WriteRune(r)
		}
	}
	w.out.WriteByte('"')
}

// pythonFloat is Python's repr of a float.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
