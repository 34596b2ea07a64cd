package jinja

import (
	"math"
	"math/bits"
)

// mod is math.Mod in a time that does not grow with the distance of its operands: the standard
// library's takes a step for each bit between them, two thousand at most, which a template
// would not be charged for.
func mod(a, b float64) float64 {
	const mantissaBits = 53
	fa, ea := math.Frexp(math.Abs(a))
	fb, eb := math.Frexp(math.Abs(b))
	if distance := ea - eb; distance < 64 || a == 0 || b == 0 || math.IsInf(a, 0) || math.IsNaN(a) || math.IsInf(b, 0) || math.IsNaN(b) {
		return math.Mod(a, b)
	}
	ma, mb := uint64(math.Ldexp(fa, mantissaBits)), uint64(math.Ldexp(fb, mantissaBits))
	r := mulMod(ma%mb, powMod(ea-eb, mb), mb)
	return math.Copysign(math.Ldexp(float64(r), eb-mantissaBits), a)
}

// powMod is 2 to the n, modulo m.
func powMod(n int, m uint64) uint64 {
	out, square := 1%m, 2%m
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			out = mulMod(out, square, m)
		}
		square = mulMod(square, square, m)
	}
	return out
}

func mulMod(x, y, m uint64) uint64 {
	high, low := bits.Mul64(x, y)
	_, r := bits.Div64(high%m, low, m)
	return r
}
