package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is Python's format specification: [[fill]align][sign][#][0][width][,][.precision][type].
type spec struct {
	fill      Value
	align     byte // 0 if none is given
	sign      byte
	alternate bool
	width     int
	group     string
	precision int // -1 if there is none
	verb      byte
}

// formatTo adds Python's format(v, spec).
func (st *state) formatTo(b *builder, v, text Value) error {
	if text.str == "" {
		return b.value(v)
	}
	s, err := parseSpec(text)
	if err != nil {
		return err
	}
	switch v.kind {
	case kindString:
		return st.formatString(b, v, s)
	case kindInt, kindBool:
		return st.formatInt(b, v, s)
	case kindFloat:
		return st.formatFloat(b, v, s)
	}
	return typeErrorf("unsupported format string passed to %s.__format__", v.typeName())
}

func isAlign(c byte) bool { return c == '<' || c == '>' || c == '^' || c == '=' }

func parseSpec(text Value) (spec, error) {
	s, t := spec{fill: String(" "), precision: -1}, text.str
	_, n := utf8.DecodeRuneInString(t)
	switch {
	case n < len(t) && isAlign(t[n]):
		s.fill, s.align, t = text.cut(0, n), t[n], t[n+1:]
	case isAlign(t[0]):
		s.align, t = t[0], t[1:]
	}
	if t != "" && strings.IndexByte("+- ", t[0]) >= 0 {
		s.sign, t = t[0], t[1:]
	}
	if strings.HasPrefix(t, "#") {
		s.alternate, t = true, t[1:]
	}
	if strings.HasPrefix(t, "0") {
		if s.align == 0 {
			s.align, s.fill = '=', String("0")
		}
		t = t[1:]
	}
	var err error
	if s.width, t, err = specNumber(t); err != nil {
		return s, err
	}
	s.width = max(s.width, 0)
	if t != "" && (t[0] == ',' || t[0] == '_') {
		s.group, t = t[:1], t[1:]
	}
	if strings.HasPrefix(t, ".") {
		if s.precision, t, err = specNumber(t[1:]); err != nil {
			return s, err
		}
		if s.precision < 0 {
			return s, valueError("Format specifier missing precision")
		}
	}
	if len(t) > 1 {
		return s, valueErrorf("Invalid format specifier %s", quote(text.str))
	}
	if t != "" {
		s.verb = t[0]
	}
	return s, nil
}

func specNumber(t string) (int, string, error) {
	n := 0
	for n < len(t) && isDigit(t[n]) {
		n++
	}
	if n == 0 {
		return -1, t, nil
	}
	i, err := strconv.Atoi(t[:n])
	if err != nil || i > math.MaxInt32 {
		return 0, t, valueError("Too many decimal digits in format string")
	}
	return i, t[n:], nil
}

func (st *state) formatString(b *builder, v Value, s spec) error {
	switch {
	case s.verb != 0 && s.verb != 's':
		return valueErrorf("Unknown format code '%c' for object of type 'str'", s.verb)
	case s.sign != 0:
		return valueError("Sign not allowed in string format specifier")
	case s.align == '=' && s.fill.str != "0":
		return valueError("'=' alignment not allowed in string format specifier")
	case s.alternate:
		return valueError("Alternate form (#) not allowed in string format specifier")
	case s.group != "":
		return valueErrorf("Cannot specify '%s' with 's'.", s.group)
	}
	if s.precision >= 0 {
		v = v.cut(0, byteAt(v.str, s.precision, false))
	}
	how := padRight
	switch s.align {
	case '>':
		how = padLeft
	case '^':
		return st.centered(b, v, s)
	}
	v, err := st.padTo(v, s.width, s.fill, how)
	if err != nil {
		return err
	}
	return b.text(v)
}

// centered puts the odd blank after the text, unlike str.center.
func (st *state) centered(b *builder, v Value, s spec) error {
	missing := max(s.width-utf8.RuneCountInString(v.str), 0)
	if err := b.fill(s.fill.str, missing/2, s.fill.prov); err != nil {
		return err
	}
	if err := b.text(v); err != nil {
		return err
	}
	return b.fill(s.fill.str, missing-missing/2, s.fill.prov)
}

func (st *state) formatInt(b *builder, v Value, s spec) error {
	base := map[byte]int{0: 10, 'd': 10, 'n': 10, 'b': 2, 'o': 8, 'x': 16, 'X': 16}[s.verb]
	if base == 0 {
		if strings.IndexByte("eEfFgG%", s.verb) >= 0 {
			return st.formatFloat(b, v, s)
		}
		if s.verb == 'c' {
			return st.formatChar(b, v, s)
		}
		return valueErrorf("Unknown format code '%c' for object of type 'int'", s.verb)
	}
	if s.precision >= 0 {
		return valueError("Precision not allowed in integer format specifier")
	}
	i := bigOf(v)
	digits := new(big.Int).Abs(i).Text(base)
	prefix := ""
	if s.alternate && base != 10 {
		prefix = "0" + string(s.verb)
	}
	if s.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	every := 3
	if base != 10 {
		every = 4
	}
	return st.formatNumber(b, formatted{negative: i.Sign() < 0, prefix: prefix, digits: digits, every: every, prov: v.prov}, s)
}

func (st *state) formatChar(b *builder, v Value, s spec) error {
	if s.sign != 0 || s.precision >= 0 || s.group != "" || v.isBig() || !utf8.ValidRune(rune(v.int())) || v.int() > utf8.MaxRune {
		return valueError("format code 'c' wants a character and nothing else")
	}
	return st.formatNumber(b, formatted{digits: string(rune(v.int())), every: 3, prov: v.prov}, s)
}

func (st *state) formatFloat(b *builder, v Value, s spec) error {
	f, err := toFloat(v)
	if err != nil {
		return err
	}
	if err := st.alloc(max(s.precision, 0) + 512); err != nil {
		return err
	}
	n := formatted{negative: math.Signbit(f) && !math.IsNaN(f), every: 3, prov: v.prov}
	f = math.Abs(f)
	precision := s.precision
	if precision < 0 {
		precision = 6
	}
	var text string
	switch {
	case s.verb == '%':
		text = pythonFloat(f*100, 'f', precision, s.alternate) + "%"
	case s.verb == 0 && s.precision < 0:
		text = floatText(f)
	case s.verb == 0: // as g, but with a digit after the point
		text = generalFloat(f, precision, 1, s.alternate)
		if !strings.ContainsAny(text, ".en") {
			text += ".0"
		}
	case strings.IndexByte("eEfFgGn", s.verb) >= 0:
		verb := s.verb
		if verb == 'n' {
			verb = 'g'
		}
		text = pythonFloat(f, verb, precision, s.alternate)
	default:
		return valueErrorf("Unknown format code '%c' for object of type 'float'", s.verb)
	}
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n.digits, n.rest = text[:end], text[end:]
	return st.formatNumber(b, n, s)
}

// formatted is a number in pieces.
type formatted struct {
	negative     bool
	prefix       string
	digits, rest string // before the point, and from it on
	every        int    // digits in a group
	prov         prov
}

func (st *state) formatNumber(b *builder, n formatted, s spec) error {
	head := n.prefix
	switch {
	case n.negative:
		head = "-" + head
	case s.sign == '+' || s.sign == ' ':
		head = string(s.sign) + head
	}
	if err := st.alloc(2*len(n.digits) + 2*len(n.rest) + 64); err != nil {
		return err
	}
	digits := n.digits
	if s.group != "" {
		if s.align == '=' && s.fill.str == "0" {
			want := s.width - len(head) - len(n.rest)
			if err := st.alloc(2 * max(want, 0)); err != nil {
				return err
			}
			for len(grouped(digits, s.group, n.every)) < want {
				missing := max(1, (want-len(grouped(digits, s.group, n.every)))*3/4)
				digits = strings.Repeat("0", missing) + digits
			}
		}
		digits = grouped(digits, s.group, n.every)
	}
	text := func(t string) Value { return Value{kind: kindString, str: t, prov: n.prov} }
	if s.align == '=' {
		if err := b.text(text(head)); err != nil {
			return err
		}
		if err := b.fill(s.fill.str, s.width-utf8.RuneCountInString(head+digits+n.rest), s.fill.prov); err != nil {
			return err
		}
		return b.text(text(digits + n.rest))
	}
	whole := text(head + digits + n.rest)
	switch s.align {
	case '^':
		return st.centered(b, whole, s)
	case '<':
		whole, err := st.padTo(whole, s.width, s.fill, padRight)
		if err != nil {
			return err
		}
		return b.text(whole)
	}
	whole, err := st.padTo(whole, s.width, s.fill, padLeft)
	if err != nil {
		return err
	}
	return b.text(whole)
}

// grouped parts digits from the right.
func grouped(digits, sep string, every int) string {
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%every == 0 {
			b.WriteString(sep)
		}
		b.WriteByte(digits[i])
	}
	return b.String()
}
