package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"unicode/utf8"
)

// format is Python's format % values.
func (st *state) format(format, values Value) (Value, error) {
	p := printf{b: builder{st: st}, format: format}
	switch values.kind {
	case kindTuple:
		p.values = values.items()
	case kindDict:
		p.named = values.ref.(*dict)
		p.values = []Value{values}
	default:
		p.values, p.one = []Value{values}, true
	}
	switch values.kind {
	case kindDict, kindList, kindRange, kindUndefined:
		return p.run(true)
	}
	return p.run(false)
}

// formatArgs is the filter format.
func (st *state) formatArgs(format Value, a args) (Value, error) {
	if len(a.plain) > 0 && len(a.named) > 0 {
		return Value{}, filterError("can't handle positional and keyword arguments at the same time")
	}
	if len(a.named) == 0 {
		return st.format(format, tuple(a.plain...))
	}
	d := &dict{}
	if err := d.fill(st, "format", args{named: a.named}); err != nil {
		return Value{}, err
	}
	return st.format(format, Value{kind: kindDict, ref: d})
}

type printf struct {
	b      builder
	format Value
	values []Value
	named  *dict // of % with a dict
	one    bool
	used   int
}

// directive is what stands after a %.
type directive struct {
	minus, plus, space, zero, alternate bool
	width, precision                    int // precision is -1 if there is none
	verb                                byte
}

// run writes the format; spare says that values may be left over, as Python allows for
// what can be indexed by a name.
func (p *printf) run(spare bool) (Value, error) {
	s := p.format.str
	for at := 0; at < len(s); {
		i := strings.IndexByte(s[at:], '%')
		if i < 0 {
			i = len(s) - at
		}
		if err := p.b.text(p.format.cut(at, at+i)); err != nil {
			return Value{}, err
		}
		if at += i; at == len(s) {
			break
		}
		next, err := p.directive(at + 1)
		if err != nil {
			return Value{}, err
		}
		at = next
	}
	if p.used < len(p.values) && !spare {
		return Value{}, typeError("not all arguments converted during string formatting")
	}
	return p.b.done(), nil
}

func (p *printf) next() (Value, error) {
	if p.used >= len(p.values) {
		return Value{}, typeError("not enough arguments for format string")
	}
	p.used++
	return p.values[p.used-1], nil
}

// directive writes the one that begins after its % at i, and returns where it ends.
func (p *printf) directive(i int) (int, error) {
	if err := p.b.st.step(2); err != nil {
		return 0, err
	}
	s := p.format.str
	start := i
	var v Value
	var err error
	if i < len(s) && s[i] == '(' {
		if v, i, err = p.key(i); err != nil {
			return 0, err
		}
	}
	d := directive{precision: -1}
	i = d.flags(s, i)
	if d.width, i, err = p.size(i, &d); err != nil {
		return 0, err
	}
	if i < len(s) && s[i] == '.' {
		if d.precision, i, err = p.size(i+1, nil); err != nil {
			return 0, err
		}
	}
	if i < len(s) && strings.IndexByte("hlL", s[i]) >= 0 {
		i++
	}
	if i >= len(s) {
		return 0, valueError("incomplete format")
	}
	d.verb = s[i]
	origin := p.format.cut(start-1, i+1).prov
	if d.verb == '%' && i == start {
		return i + 1, p.b.write("%", origin != ofTemplate)
	}
	if !v.given() {
		if v, err = p.next(); err != nil {
			return 0, err
		}
	}
	return i + 1, p.write(d, v, origin)
}

func (p *printf) key(i int) (Value, int, error) {
	s := p.format.str
	depth := 1
	start := i + 1
	for i++; i < len(s) && depth > 0; i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
	}
	if depth > 0 {
		return Value{}, 0, valueError("incomplete format key")
	}
	if len(p.values) == 1 && p.values[0].kind == kindUndefined {
		return Value{}, 0, useOf(p.values[0])
	}
	if p.named == nil {
		return Value{}, 0, typeError("format requires a mapping")
	}
	v, ok := p.named.get(s[start : i-1])
	if !ok {
		return Value{}, 0, &pythonError{"KeyError", quote(s[start : i-1])}
	}
	return v, i, nil
}

func (d *directive) flags(s string, i int) int {
	for ; i < len(s); i++ {
		switch s[i] {
		case '-':
			d.minus = true
		case '+':
			d.plus = true
		case ' ':
			d.space = true
		case '0':
			d.zero = true
		case '#':
			d.alternate = true
		default:
			return i
		}
	}
	return i
}

// size reads a width or precision, which may be the next value. A negative width is as
// the flag -.
func (p *printf) size(i int, d *directive) (int, int, error) {
	s := p.format.str
	if i < len(s) && s[i] == '*' {
		v, err := p.next()
		if err != nil {
			return 0, 0, err
		}
		if !v.isInt() {
			return 0, 0, typeError("* wants int")
		}
		n, _ := slicePart(v, 0)
		if n < 0 && d != nil {
			d.minus, n = true, -n
		}
		return max(n, 0), i + 1, nil
	}
	n := 0
	for ; i < len(s) && isDigit(s[i]); i++ {
		if n = n*10 + int(s[i]-'0'); n > math.MaxInt32 {
			return 0, 0, valueError("width too big")
		}
	}
	return n, i, nil
}

func (p *printf) write(d directive, v Value, origin prov) error {
	switch d.verb {
	case 's', 'r', 'a':
		return p.text(d, v, origin)
	case 'd', 'i', 'u', 'o', 'x', 'X':
		return p.integer(d, v, origin)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		return p.float(d, v, origin)
	case 'c':
		return p.char(d, v, origin)
	}
	return valueErrorf("unsupported format character '%c' (0x%x)", d.verb, d.verb)
}

func (p *printf) text(d directive, v Value, origin prov) error {
	st := p.b.st
	var s Value
	var err error
	switch d.verb {
	case 's':
		s, err = st.str(v)
	case 'r':
		s, err = st.repr(v)
	default:
		if s, err = st.repr(v); err == nil {
			s, err = st.ascii(s)
		}
	}
	if err != nil {
		return err
	}
	if d.precision >= 0 {
		s = s.cut(0, byteAt(s.str, d.precision, false))
	}
	return p.padded(d, s, origin)
}

// ascii is Python's ascii of what is a repr already.
func (st *state) ascii(s Value) (Value, error) {
	return st.mapText(s, func(_ string, _ int, r rune, b []byte) []byte {
		switch {
		case r < utf8.RuneSelf:
			return append(b, byte(r))
		case r < 0x100:
			return fmt.Appendf(b, `\x%02x`, r)
		case r < 0x10000:
			return fmt.Appendf(b, `\u%04x`, r)
		}
		return fmt.Appendf(b, `\U%08x`, r)
	})
}

func (p *printf) padded(d directive, s Value, origin prov) error {
	how := padLeft
	if d.minus {
		how = padRight
	}
	if d.width > 0 {
		var err error
		if s, err = p.b.st.padTo(s, d.width, String(" ").withProv(origin.join(ofTemplate)), how); err != nil {
			return err
		}
	}
	return p.b.text(s)
}

func (p *printf) integer(d directive, v Value, origin prov) error {
	i, err := printfInt(d, v)
	if err != nil {
		return err
	}
	if err := p.b.st.alloc(max(d.precision, 0) + 64); err != nil {
		return err
	}
	base := map[byte]int{'o': 8, 'x': 16, 'X': 16}[d.verb]
	prefix := ""
	if base == 0 {
		base = 10
	} else if d.alternate {
		prefix = "0" + string(d.verb)
	}
	digits := new(big.Int).Abs(i).Text(base)
	if n := d.precision - len(digits); n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	if d.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	return p.number(d, i.Sign() < 0, prefix, digits, v.prov, origin)
}

func printfInt(d directive, v Value) (*big.Int, error) {
	hexOctal := d.verb == 'o' || d.verb == 'x' || d.verb == 'X'
	switch {
	case v.isInt():
		return bigOf(v), nil
	case v.kind == kindUndefined:
		return nil, useOf(v)
	case v.kind == kindFloat && !hexOctal:
		if math.IsNaN(v.float()) || math.IsInf(v.float(), 0) {
			return nil, valueError("cannot convert float NaN or infinity to integer")
		}
		i, _ := new(big.Float).SetFloat64(v.float()).Int(nil)
		return i, nil
	case hexOctal:
		return nil, typeErrorf("%%%c format: an integer is required, not %s", d.verb, v.typeName())
	}
	return nil, typeErrorf("%%%c format: a real number is required, not %s", d.verb, v.typeName())
}

// number writes a sign, a prefix and digits, with blanks before or after them or zeros
// among them.
func (p *printf) number(d directive, negative bool, prefix, digits string, from, origin prov) error {
	sign := ""
	switch {
	case negative:
		sign = "-"
	case d.plus:
		sign = "+"
	case d.space:
		sign = " "
	}
	head := sign + prefix
	if missing := d.width - len(head) - len(digits); d.zero && !d.minus && missing > 0 {
		if err := p.b.st.alloc(missing); err != nil {
			return err
		}
		digits = strings.Repeat("0", missing) + digits
	}
	return p.padded(d, Value{kind: kindString, str: head + digits, prov: from.join(ofTemplate)}, origin)
}

func (p *printf) float(d directive, v Value, origin prov) error {
	if v.kind == kindUndefined {
		return useOf(v)
	}
	if !v.isNumber() {
		return typeErrorf("must be real number, not %s", v.typeName())
	}
	f, err := toFloat(v)
	if err != nil {
		return err
	}
	if d.precision < 0 {
		d.precision = 6
	}
	if err := p.b.st.alloc(d.precision + 512); err != nil {
		return err
	}
	text := pythonFloat(math.Abs(f), d.verb, d.precision, d.alternate)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		d.zero = false
	}
	return p.number(d, math.Signbit(f) && !math.IsNaN(f), "", text, v.prov, origin)
}

func (p *printf) char(d directive, v Value, origin prov) error {
	if v.isString() && utf8.RuneCountInString(v.str) == 1 {
		return p.padded(d, v, origin)
	}
	if !v.isInt() {
		return typeError("%c requires int or char")
	}
	if v.isBig() || v.int() < 0 || v.int() > utf8.MaxRune || !utf8.ValidRune(rune(v.int())) {
		return &pythonError{"OverflowError", "%c arg not in range(0x110000)"}
	}
	return p.padded(d, Value{kind: kindString, str: string(rune(v.int())), prov: v.prov}, origin)
}
