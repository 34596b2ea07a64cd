package jinja

import (
	"fmt"
	"math"
	"math/big"
)

func divisionByZero(what string) error { return &pythonError{"ZeroDivisionError", what} }

func divide(_ *state, l, r Value) (Value, error) {
	if bothInts(l, r) {
		if !r.truth() {
			return Value{}, divisionByZero("division by zero")
		}
		const exact = 1 << 53
		if bothSmall(l, r) && magnitude(l.int()) <= exact && magnitude(r.int()) <= exact {
			return floating(float64(l.int())/float64(r.int()), l.prov.join(r.prov)), nil
		}
		// Exactly, and rounded once, as Python does.
		f, _ := new(big.Rat).SetFrac(bigOf(l), bigOf(r)).Float64()
		if math.IsInf(f, 0) {
			return Value{}, &pythonError{"OverflowError", "integer division result too large for a float"}
		}
		return floating(f, l.prov.join(r.prov)), nil
	}
	return floats("/", l, r, func(a, b float64) (float64, error) {
		if b == 0 {
			return 0, divisionByZero("float division by zero")
		}
		return a / b, nil
	})
}

func floorDivide(_ *state, l, r Value) (Value, error) {
	if bothInts(l, r) {
		if !r.truth() {
			return Value{}, divisionByZero("integer division or modulo by zero")
		}
		quotient, _ := floorDivMod(bigOf(l), bigOf(r))
		return integer(quotient, l.prov.join(r.prov))
	}
	return floats("//", l, r, func(a, b float64) (float64, error) {
		if b == 0 {
			return 0, divisionByZero("float floor division by zero")
		}
		quotient, _ := floatDivMod(a, b)
		return quotient, nil
	})
}

func modulo(st *state, l, r Value) (Value, error) {
	switch {
	case l.safe:
		return Value{}, unsafeUse("%")
	case l.isString():
		return st.format(l, r)
	case bothSmall(l, r) && r.int() > 0:
		m := l.int() % r.int()
		if m < 0 {
			m += r.int()
		}
		return smallInt(m, l.prov.join(r.prov)), nil
	case bothInts(l, r):
		if !r.truth() {
			return Value{}, divisionByZero("integer modulo by zero")
		}
		_, remainder := floorDivMod(bigOf(l), bigOf(r))
		return integer(remainder, l.prov.join(r.prov))
	}
	return floats("%", l, r, func(a, b float64) (float64, error) {
		if b == 0 {
			return 0, divisionByZero("float modulo")
		}
		_, remainder := floatDivMod(a, b)
		return remainder, nil
	})
}

// floorDivMod rounds down, as Python does, where Go's Euclidean division does not.
func floorDivMod(a, b *big.Int) (quotient, remainder *big.Int) {
	quotient, remainder = new(big.Int).QuoRem(a, b, new(big.Int))
	if remainder.Sign() != 0 && remainder.Sign() != b.Sign() {
		quotient.Sub(quotient, big.NewInt(1))
		remainder.Add(remainder, b)
	}
	return quotient, remainder
}

// floatDivMod is CPython's float_divmod.
func floatDivMod(a, b float64) (quotient, remainder float64) {
	remainder = mod(a, b)
	quotient = (a - remainder) / b
	if remainder != 0 {
		if (b < 0) != (remainder < 0) {
			remainder += b
			quotient--
		}
	} else {
		remainder = math.Copysign(0, b)
	}
	if quotient == 0 {
		return math.Copysign(0, a/b), remainder
	}
	floor := math.Floor(quotient)
	if quotient-floor > 0.5 {
		floor++
	}
	return floor, remainder
}

func power(st *state, l, r Value) (Value, error) {
	if !bothInts(l, r) || bigOf(r).Sign() < 0 {
		return floats("** or pow()", l, r, floatPower)
	}
	base, exponent := bigOf(l), bigOf(r)
	if base.IsInt64() && (base.Int64() == 0 || base.Int64() == 1 || base.Int64() == -1) {
		exponent = new(big.Int).And(exponent, big.NewInt(1)) // only whether it is odd, and for 0 whether it is 0
		if base.Sign() == 0 && bigOf(r).Sign() > 0 {
			exponent = big.NewInt(1)
		}
	}
	if !exponent.IsInt64() || exponent.Int64() > maxIntBits || int64(base.BitLen()-1)*exponent.Int64() > maxIntBits {
		return Value{}, fmt.Errorf("%w: an integer of more than %d bits", ErrLimit, maxIntBits)
	}
	if err := st.alloc(maxIntBits / 8); err != nil {
		return Value{}, err
	}
	return integer(new(big.Int).Exp(base, exponent, nil), l.prov.join(r.prov))
}

func floatPower(a, b float64) (float64, error) {
	switch {
	case a == 0 && b < 0:
		return 0, divisionByZero("0.0 cannot be raised to a negative power")
	case a < 0 && b != math.Trunc(b) && !math.IsInf(b, 0):
		return 0, valueError("complex numbers are not supported")
	}
	f := math.Pow(a, b)
	if math.IsInf(f, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
		return 0, &pythonError{"OverflowError", "(34, 'Numerical result out of range')"}
	}
	return f, nil
}
