package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain is what Python prints for a number, a bool or none.
func (v Value) plain() string {
	switch v.kind {
	case kindBool:
		if v.num != 0 {
			return "True"
		}
		return "False"
	case kindInt:
		if v.isBig() {
			return bigOf(v).String()
		}
		return strconv.FormatInt(v.int(), 10)
	case kindFloat:
		return floatText(v.float())
	case kindNone:
		return "None"
	}
	return ""
}

// repr adds Python's repr of a value.
func (b *builder) repr(v Value, depth int) error {
	if depth > maxValueDepth {
		return tooDeep()
	}
	if err := b.st.step(1); err != nil {
		return err
	}
	switch v.kind {
	case kindString:
		if v.safe {
			return b.safe(v)
		}
		return b.quoted(v)
	case kindUndefined, kindMissing:
		return b.glue("Undefined")
	case kindNone, kindBool, kindInt, kindFloat:
		return b.write(v.plain(), v.prov != ofTemplate)
	case kindList:
		return b.sequence("[", v.items(), "]", depth)
	case kindTuple:
		if len(v.items()) == 1 {
			return b.sequence("(", v.items(), ",)", depth)
		}
		return b.sequence("(", v.items(), ")", depth)
	case kindDict:
		return b.fields(v.ref.(*dict), depth)
	case kindView:
		return b.viewed(v.ref.(*view), depth)
	case kindRange:
		r := v.ref.(*span)
		if r.step == 1 {
			return b.write(fmt.Sprintf("range(%d, %d)", r.start, r.stop), r.prov != ofTemplate)
		}
		return b.write(fmt.Sprintf("range(%d, %d, %d)", r.start, r.stop, r.step), r.prov != ofTemplate)
	case kindObject:
		return v.ref.(object).repr(b, depth)
	}
	return b.glue("<" + v.typeName() + " object>")
}

func (b *builder) sequence(open string, items []Value, end string, depth int) error {
	if err := b.glue(open); err != nil {
		return err
	}
	for i, item := range items {
		if i > 0 {
			if err := b.glue(", "); err != nil {
				return err
			}
		}
		if err := b.repr(item, depth+1); err != nil {
			return err
		}
	}
	return b.glue(end)
}

func (b *builder) fields(d *dict, depth int) error {
	if err := b.glue("{"); err != nil {
		return err
	}
	for i := range d.entries {
		if i > 0 {
			if err := b.glue(", "); err != nil {
				return err
			}
		}
		if err := b.repr(d.entries[i].key, depth+1); err != nil {
			return err
		}
		if err := b.glue(": "); err != nil {
			return err
		}
		if err := b.repr(d.entries[i].value, depth+1); err != nil {
			return err
		}
	}
	return b.glue("}")
}

func (b *builder) viewed(v *view, depth int) error {
	if err := b.st.allocValues(v.d.len()); err != nil {
		return err
	}
	items := make([]Value, v.d.len())
	for i := range items {
		items[i] = v.at(i)
	}
	return b.sequence(v.typeName()+"([", items, "])", depth)
}

// quoted adds a string as Python writes it in a list.
func (b *builder) quoted(v Value) error {
	mark := "'"
	if strings.Contains(v.str, "'") && !strings.Contains(v.str, `"`) {
		mark = `"`
	}
	if err := b.glue(mark); err != nil {
		return err
	}
	for s, chat := range v.pieces() {
		if err := b.escaped(s, chat, mark[0]); err != nil {
			return err
		}
	}
	return b.glue(mark)
}

func (b *builder) safe(v Value) error {
	if err := b.glue("Markup("); err != nil {
		return err
	}
	if err := b.quoted(v); err != nil {
		return err
	}
	return b.glue(")")
}

func (b *builder) escaped(s string, chat bool, mark byte) error {
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; ' ' <= c && c < 0x7f && c != mark && c != '\\' {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if escape := reprEscape(r, n, s[i], mark); escape != "" {
			if err := b.st.step(1); err != nil {
				return err
			}
			if err := b.write(s[start:i], chat); err != nil {
				return err
			}
			if err := b.write(escape, chat); err != nil {
				return err
			}
			start = i + n
		}
		i += n
	}
	return b.write(s[start:], chat)
}

func reprEscape(r rune, n int, first, mark byte) string {
	switch {
	case r == '\\' || r == rune(mark):
		return `\` + string(r)
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r == utf8.RuneError && n == 1: // not UTF-8: as Python's surrogateescape has it
		return fmt.Sprintf(`\udc%02x`, first)
	case unicode.IsPrint(r):
		return ""
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// quote is Python's repr of a name, for messages.
func quote(s string) string {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	var b strings.Builder
	b.WriteByte(mark)
	for i, r := range s {
		if i > 100 {
			b.WriteString("...")
			break
		}
		if escape := reprEscape(r, utf8.RuneLen(r), 0, mark); escape != "" {
			b.WriteString(escape)
			continue
		}
		b.WriteRune(r)
	}
	b.WriteByte(mark)
	return b.String()
}

// str makes a string of a value.
func (st *state) str(v Value) (Value, error) {
	switch v.kind {
	case kindString:
		return v, nil
	case kindUndefined, kindMissing:
		return String(""), nil
	case kindInt, kindFloat, kindBool, kindNone:
		return Value{kind: kindString, str: v.plain(), prov: v.prov}, st.alloc(16)
	}
	b := builder{st: st}
	if err := b.repr(v, 0); err != nil {
		return Value{}, err
	}
	return b.done(), nil
}

func (st *state) repr(v Value) (Value, error) {
	b := builder{st: st}
	if err := b.repr(v, 0); err != nil {
		return Value{}, err
	}
	return b.done(), nil
}
