package sampling

import "math"

const (
	// ln 2 in two parts; the first has so few bits that a product with an integer
	// below 2^20 is exact.
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
	log2e = 1.44269504088896338700

	exponentBits = 52 // where the exponent of a float64 starts
	exponentBias = 1023
)

// weight is e^x · 2^oneBits, rounded to an integer, for lowest ≤ x ≤ 0, with an error of up to
// 4e-11 of it beside the rounding, which no draw can show, and small enough to be inlined into
// the loops over the vocabulary.
//
// x = n·ln 2/64 + r with |r| ≤ ln 2/128; e^x = 2^(n/64) · e^r, the first factor from a
// table, the second by its Taylor series to the 3rd power.
func weight(x float64) uint64 {
	n := int(float64(x*(log2e*steps)) - 0.5)
	r := x - float64(float64(n)*(math.Ln2/steps))
	power := math.Float64frombits(powers[n&(steps-1)] + uint64(n>>stepBits+oneBits)<<exponentBits)
	series := r + float64(float64(r*r)*(0.5+float64(r*(1.0/6))))
	return uint64(int64(power + float64(power*series) + 0.5)) // by int64: one instruction
}

// log is the natural logarithm of a finite x ≥ 1, with an error below 1 ulp.
//
// x = 2^k · (1+f) with √½ < 1+f ≤ √2, and log(1+f) by the rational form in
// s = f/(2+f) of FreeBSD's e_log.c (Sun Microsystems, 1993).
func log(x float64) float64 {
	const (
		l1 = 6.666666666666735130e-01
		l2 = 3.999999999940941908e-01
		l3 = 2.857142874366239149e-01
		l4 = 2.222219843214978396e-01
		l5 = 1.818357216161805012e-01
		l6 = 1.531383769920937332e-01
		l7 = 1.479819860511658591e-01
	)
	bits := math.Float64bits(x)
	k := float64(int(bits>>exponentBits) - exponentBias)
	m := math.Float64frombits(bits&(1<<exponentBits-1) | exponentBias<<exponentBits)
	if m > math.Sqrt2 {
		m /= 2
		k++
	}
	f := m - 1
	s := f / (2 + f)
	s2 := s * s
	s4 := s2 * s2
	t1 := l5 + float64(s4*l7)
	t1 = l3 + float64(s4*t1)
	t1 = l1 + float64(s4*t1)
	t2 := l4 + float64(s4*l6)
	t2 = l2 + float64(s4*t2)
	r := float64(s2*t1) + float64(s4*t2)
	half := float64(0.5 * f * f)
	// k·ln2Hi − ((half − (s·(half+r) + k·ln2Lo)) − f)
	small := float64(s*(half+r)) + float64(k*ln2Lo)
	return float64(k*ln2Hi) - ((half - small) - f)
}
