package jinja

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

type binaryOp func(st *state, l, r Value) (Value, error)

func binaryOps() map[string]binaryOp {
	return map[string]binaryOp{
		"+": add, "-": subtract, "*": multiply, "/": divide, "//": floorDivide, "%": modulo, "**": power,
	}
}

const (
	maxIntBits   = 4096
	maxIntDigits = 1233 // that always fit
)

// integer is an integer of any size, up to the limit.
func integer(i *big.Int, p prov) (Value, error) {
	if i.BitLen() > maxIntBits {
		return Value{}, fmt.Errorf("%w: an integer of more than %d bits", ErrLimit, maxIntBits)
	}
	v := BigInt(i)
	v.prov = p
	return v, nil
}

func bigOf(v Value) *big.Int {
	if v.isBig() {
		return v.ref.(*big.Int)
	}
	return big.NewInt(v.int())
}

func smallInt(i int64, p prov) Value { return Value{kind: kindInt, num: uint64(i), prov: p} }

func floating(f float64, p prov) Value {
	return Value{kind: kindFloat, num: math.Float64bits(f), prov: p}
}

// toFloat is a number as a float.
func toFloat(v Value) (float64, error) {
	switch {
	case v.kind == kindFloat:
		return v.float(), nil
	case v.isBig():
		f, _ := new(big.Float).SetInt(bigOf(v)).Float64()
		if math.IsInf(f, 0) {
			return 0, &pythonError{"OverflowError", "int too large to convert to float"}
		}
		return f, nil
	}
	return float64(v.int()), nil
}

func unsupported(op string, l, r Value) error {
	for _, v := range []Value{l, r} {
		if v.kind == kindUndefined || v.kind == kindMissing {
			return useOf(v)
		}
	}
	return typeErrorf("unsupported operand type(s) for %s: '%s' and '%s'", op, l.typeName(), r.typeName())
}

// floats applies an operation to two numbers of which one is a float.
func floats(op string, l, r Value, do func(a, b float64) (float64, error)) (Value, error) {
	if !l.isNumber() || !r.isNumber() {
		return Value{}, unsupported(op, l, r)
	}
	a, err := toFloat(l)
	if err != nil {
		return Value{}, err
	}
	b, err := toFloat(r)
	if err != nil {
		return Value{}, err
	}
	f, err := do(a, b)
	return floating(f, l.prov.join(r.prov)), err
}

func bothInts(l, r Value) bool { return l.isInt() && r.isInt() }

func bothSmall(l, r Value) bool { return bothInts(l, r) && l.ref == nil && r.ref == nil }

func add(st *state, l, r Value) (Value, error) {
	switch {
	case l.kind == kindString && r.kind == kindString:
		if l.safe || r.safe {
			return st.joinSafe(l, r)
		}
		return st.join2(l, r)
	case bothSmall(l, r):
		a, b := l.int(), r.int()
		if sum := a + b; (sum > a) == (b > 0) {
			return smallInt(sum, l.prov.join(r.prov)), nil
		}
		fallthrough
	case bothInts(l, r):
		return integer(new(big.Int).Add(bigOf(l), bigOf(r)), l.prov.join(r.prov))
	case l.kind == kindList && r.kind == kindList, l.kind == kindTuple && r.kind == kindTuple:
		return st.joinLists(l, r)
	case l.kind == kindUndefined || r.kind == kindUndefined:
		return Value{}, unsupported("+", l, r)
	case l.kind == kindString:
		return Value{}, typeErrorf(`can only concatenate str (not "%s") to str`, r.typeName())
	case l.isSequence():
		return Value{}, typeErrorf(`can only concatenate %s (not "%s") to %s`, l.typeName(), r.typeName(), l.typeName())
	}
	return floats("+", l, r, func(a, b float64) (float64, error) { return a + b, nil })
}

func (st *state) join2(l, r Value) (Value, error) {
	switch {
	case l.str == "":
		return r, nil
	case r.str == "":
		return l, nil
	case l.prov == r.prov && l.prov != mixed:
		if err := st.alloc(len(l.str) + len(r.str)); err != nil {
			return Value{}, err
		}
		return Value{kind: kindString, str: l.str + r.str, prov: l.prov}, nil
	}
	b := builder{st: st}
	if err := b.grow(len(l.str) + len(r.str)); err != nil {
		return Value{}, err
	}
	if err := b.text(l); err != nil {
		return Value{}, err
	}
	if err := b.text(r); err != nil {
		return Value{}, err
	}
	return b.done(), nil
}

const htmlSpecial = "&<>'\"" // what an escape changes

// joinSafe adds strings of which one is safe for HTML, which Jinja does by escaping the other.
func (st *state) joinSafe(l, r Value) (Value, error) {
	for _, v := range []Value{l, r} {
		if !v.safe && strings.ContainsAny(v.str, htmlSpecial) {
			return Value{}, unsafeUse("+")
		}
	}
	out, err := st.join2(l, r)
	out.safe = true
	return out, err
}

func unsafeUse(op string) error {
	return fmt.Errorf("%s escapes what it adds to a string that is safe or escaped, which is not supported", op)
}

func (st *state) joinLists(l, r Value) (Value, error) {
	a, b := l.items(), r.items()
	if err := st.allocValues(len(a) + len(b) + 1); err != nil {
		return Value{}, err
	}
	items := append(append(make([]Value, 0, len(a)+len(b)), a...), b...)
	return Value{kind: l.kind, ref: &list{items: items}}, nil
}

func subtract(_ *state, l, r Value) (Value, error) {
	switch {
	case bothSmall(l, r):
		a, b := l.int(), r.int()
		if diff := a - b; (diff < a) == (b > 0) {
			return smallInt(diff, l.prov.join(r.prov)), nil
		}
		fallthrough
	case bothInts(l, r):
		return integer(new(big.Int).Sub(bigOf(l), bigOf(r)), l.prov.join(r.prov))
	}
	return floats("-", l, r, func(a, b float64) (float64, error) { return a - b, nil })
}

func multiply(st *state, l, r Value) (Value, error) {
	switch {
	case bothSmall(l, r):
		high, low := bits.Mul64(magnitude(l.int()), magnitude(r.int()))
		if high == 0 && low < 1<<63 {
			return smallInt(l.int()*r.int(), l.prov.join(r.prov)), nil
		}
		fallthrough
	case bothInts(l, r):
		return integer(new(big.Int).Mul(bigOf(l), bigOf(r)), l.prov.join(r.prov))
	case l.isInt() && (r.isString() || r.isSequence()):
		return st.repeat(r, l)
	case r.isInt() && (l.isString() || l.isSequence()):
		return st.repeat(l, r)
	case l.kind == kindUndefined || r.kind == kindUndefined:
		return Value{}, unsupported("*", l, r)
	case l.isString() || l.isSequence():
		return Value{}, typeErrorf("can't multiply sequence by non-int of type '%s'", r.typeName())
	case r.isString() || r.isSequence():
		return Value{}, typeErrorf("can't multiply sequence by non-int of type '%s'", l.typeName())
	}
	return floats("*", l, r, func(a, b float64) (float64, error) { return a * b, nil })
}

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i)
	}
	return uint64(i)
}

// repeat is v * n of a string or sequence.
func (st *state) repeat(v, n Value) (Value, error) {
	times, err := slicePart(n, 0)
	if err != nil {
		return Value{}, err
	}
	times = max(times, 0)
	if v.isString() {
		return st.repeatText(v, times)
	}
	items := v.items()
	if len(items) == 0 {
		times = 0
	}
	if times > 0 && len(items) > math.MaxInt32/times {
		return Value{}, st.alloc(math.MaxInt)
	}
	if err := st.allocValues(len(items)*times + 1); err != nil {
		return Value{}, err
	}
	out := make([]Value, 0, len(items)*times)
	for range times {
		out = append(out, items...)
	}
	return Value{kind: v.kind, ref: &list{items: out}}, nil
}

func (st *state) repeatText(v Value, times int) (Value, error) {
	b := builder{st: st}
	if v.prov != mixed {
		err := b.fill(v.str, times, v.prov)
		return b.done(), err
	}
	for range times {
		if err := b.text(v); err != nil {
			return Value{}, err
		}
	}
	return b.done(), nil
}

func sign(v Value, minus bool) (Value, error) {
	switch {
	case v.kind == kindFloat && minus:
		return floating(-v.float(), v.prov), nil
	case v.kind == kindFloat:
		return v, nil
	case v.isInt() && !minus:
		return integer(bigOf(v), v.prov)
	case v.isInt():
		return integer(new(big.Int).Neg(bigOf(v)), v.prov)
	case v.kind == kindUndefined:
		return Value{}, useOf(v)
	}
	op := "+"
	if minus {
		op = "-"
	}
	return Value{}, typeErrorf("bad operand type for unary %s: '%s'", op, v.typeName())
}
