package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func numberFilters() []*builtin {
	return []*builtin{
		define("abs", absFilter),
		define("int default=, base=", intFilter),
		define("float default=", floatFilter),
		define("round precision=, method=", roundFilter),
		define("sum attribute=, start=", sumFilter),
	}
}

func absFilter(_ *state, a []Value) (Value, error) {
	v := a[0]
	switch {
	case v.isInt():
		return integer(new(big.Int).Abs(bigOf(v)), v.prov)
	case v.kind == kindFloat:
		return floating(math.Abs(v.float()), v.prov), nil
	case v.kind == kindUndefined:
		return Value{}, useOf(v)
	}
	return Value{}, typeErrorf("bad operand type for abs(): '%s'", v.typeName())
}

// parseInt is Python's int of a text.
func parseInt(s string, base int) (*big.Int, bool) {
	s = strings.Map(asciiDigit, strings.TrimFunc(s, isSpace))
	if len(s) > maxIntDigits || base < 0 || base == 1 || base > 36 {
		return nil, false
	}
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" {
		return nil, false
	}
	prefix := map[string]int{"0b": 2, "0o": 8, "0x": 16}[strings.ToLower(digits[:min(2, len(digits))])]
	switch {
	case prefix > 0 && (base == 0 || base == prefix):
		digits, base = strings.TrimPrefix(digits[2:], "_"), prefix
	case base == 0:
		if digits[0] == '0' && strings.Trim(digits, "0_") != "" {
			return nil, false
		}
		base = 10
	}
	if digits == "" || digits[0] == '_' || digits[0] == '+' || digits[0] == '-' || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return nil, false
	}
	i, ok := new(big.Int).SetString(strings.ReplaceAll(digits, "_", ""), base)
	if ok && s[0] == '-' {
		i.Neg(i)
	}
	return i, ok
}

// asciiDigit is the digit that a decimal of another script stands for.
func asciiDigit(r rune) rune {
	if r < utf8.RuneSelf || !unicode.IsDigit(r) {
		return r
	}
	zero := r
	for zero > 0 && unicode.IsDigit(zero-1) {
		zero--
	}
	return '0' + (r-zero)%10
}

// parseFloat is Python's float of a text.
func parseFloat(s string) (float64, bool) {
	s = strings.ToLower(strings.Map(asciiDigit, strings.TrimFunc(s, isSpace)))
	switch strings.TrimLeft(s, "+-") {
	case "inf", "infinity", "nan":
	default:
		if s == "" || strings.Trim(s, "0123456789+-._e") != "" || strings.Contains(s, "__") || !underscoresPartDigits(s) {
			return 0, false
		}
		s = strings.ReplaceAll(s, "_", "")
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

func underscoresPartDigits(s string) bool {
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || i+1 == len(s) || !isDigit(s[i-1]) || !isDigit(s[i+1])) {
			return false
		}
	}
	return true
}

// parse pays for reading a text as a number, which looks at each character several times.
func (st *state) parse(v Value) error { return st.step(1 + len(v.str)) }

func intFilter(st *state, a []Value) (Value, error) {
	v, otherwise, base := a[0], a[1], 10
	if err := st.parse(v); err != nil {
		return Value{}, err
	}
	if !otherwise.given() {
		otherwise = Int(0)
	}
	if a[2].given() {
		if !a[2].isInt() {
			return otherwise, nil
		}
		base, _ = slicePart(a[2], 10)
	}
	p := v.prov.join(ofTemplate)
	switch {
	case v.isInt():
		return integer(bigOf(v), v.prov)
	case v.kind == kindFloat:
		return truncated(v.float(), v.prov, otherwise)
	case v.isString():
		if i, ok := parseInt(v.str, base); ok {
			return integer(i, p)
		}
		if f, ok := parseFloat(v.str); ok {
			return truncated(f, p, otherwise)
		}
	case v.kind == kindUndefined:
		return Value{}, useOf(v)
	}
	return otherwise, nil
}

func truncated(f float64, p prov, otherwise Value) (Value, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return otherwise, nil
	}
	i, _ := new(big.Float).SetFloat64(f).Int(nil)
	return integer(i, p)
}

func floatFilter(st *state, a []Value) (Value, error) {
	v, otherwise := a[0], a[1]
	if err := st.parse(v); err != nil {
		return Value{}, err
	}
	if !otherwise.given() {
		otherwise = Float(0)
	}
	switch {
	case v.isNumber():
		f, err := toFloat(v)
		return floating(f, v.prov), err
	case v.isString():
		if f, ok := parseFloat(v.str); ok {
			return floating(f, v.prov.join(ofTemplate)), nil
		}
	case v.kind == kindUndefined:
		return Value{}, useOf(v)
	}
	return otherwise, nil
}

func roundFilter(_ *state, a []Value) (Value, error) {
	v, digits, method := a[0], 0, "common"
	if a[1].given() {
		if !a[1].isInt() {
			return Value{}, typeErrorf("'%s' object cannot be interpreted as an integer", a[1].typeName())
		}
		digits, _ = slicePart(a[1], 0)
	}
	if a[2].given() {
		method = a[2].str
	}
	if method != "common" && method != "ceil" && method != "floor" {
		return Value{}, filterError("method must be common, ceil or floor")
	}
	if v.kind == kindUndefined {
		return Value{}, useOf(v)
	}
	if !v.isNumber() {
		return Value{}, typeErrorf("type %s doesn't define __round__ method", v.typeName())
	}
	if digits < -400 || digits > 400 {
		return Value{}, limitError("rounding to more than 400 digits")
	}
	if method != "common" {
		return roundTowards(v, digits, method)
	}
	if v.isInt() {
		return roundInt(v, digits)
	}
	f := v.float()
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return v, nil
	}
	return floating(roundFloat(f, digits), v.prov), nil
}

// roundFloat rounds the exact decimal value, and half to even.
func roundFloat(f float64, digits int) float64 {
	if digits >= 0 {
		out, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
		return out
	}
	exact := new(big.Rat).SetFloat64(f)
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil))
	quotient := exact.Quo(exact, scale)
	rounded := new(big.Rat).SetInt(halfEven(quotient))
	out, _ := rounded.Mul(rounded, scale).Float64()
	return math.Copysign(out, f)
}

func halfEven(r *big.Rat) *big.Int {
	quotient, remainder := floorDivMod(r.Num(), r.Denom())
	twice := new(big.Int).Lsh(remainder, 1)
	if c := twice.Cmp(r.Denom()); c > 0 || c == 0 && quotient.Bit(0) == 1 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient
}

func roundInt(v Value, digits int) (Value, error) {
	if digits >= 0 {
		return integer(bigOf(v), v.prov)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
	return integer(scale.Mul(scale, halfEven(new(big.Rat).SetFrac(bigOf(v), scale))), v.prov)
}

func roundTowards(v Value, digits int, method string) (Value, error) {
	f, err := toFloat(v)
	if err != nil {
		return Value{}, err
	}
	scale := math.Pow(10, float64(digits))
	scaled := f * scale
	if math.IsNaN(scaled) || math.IsInf(scaled, 0) || scale == 0 {
		return Value{}, &pythonError{"OverflowError", "cannot convert float infinity or NaN to integer"}
	}
	if method == "ceil" {
		scaled = math.Ceil(scaled)
	} else {
		scaled = math.Floor(scaled)
	}
	if scaled == 0 {
		scaled = 0 // the integer that Python makes of it has no sign
	}
	return floating(scaled/scale, v.prov), nil
}

func sumFilter(st *state, a []Value) (Value, error) {
	total := a[2]
	if !total.given() {
		total = Int(0)
	}
	if total.isString() {
		return Value{}, typeError("sum() can't sum strings [use ''.join(seq) instead]")
	}
	path, err := st.attributePath(a[1])
	if err != nil {
		return Value{}, err
	}
	it, err := st.iterate(a[0])
	if err != nil {
		return Value{}, err
	}
	for {
		v, ok, err := it.next(st)
		if !ok || err != nil {
			return total, err
		}
		if v, err = path.of(st, v); err != nil {
			return Value{}, err
		}
		if total, err = add(st, total, v); err != nil {
			return Value{}, err
		}
	}
}
