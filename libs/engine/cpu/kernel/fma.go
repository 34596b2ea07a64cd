package kernel

import "math"

// fma is a·b + c rounded once to float32, on every architecture.
//
// The product is exact in float64. The sum is rounded to odd there, which makes
// the second rounding, to float32, harmless (Boldo and Melquiond 2008: two spare
// bits suffice, there are 29). A plain float32(math.FMA(…)) would round twice.
func fma(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	z := float64(c)
	s := p + z
	back := s - p
	if rest := (p - (s - back)) + (z - back); rest != 0 {
		s = roundOdd(s, rest)
	}
	return float32(s)
}

// roundOdd moves the nearest s to the neighbour with an odd last bit, on the
// side of the exact value s + rest.
func roundOdd(s, rest float64) float64 {
	bits := math.Float64bits(s)
	if bits&1 != 0 || math.IsInf(s, 0) || math.IsNaN(s) {
		return s
	}
	if (rest > 0) == (s > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}

// tree adds the sixteen lanes of an accumulator in the one order of the format.
func tree(a *[16]float32) float32 {
	var y [8]float32
	for l := range y {
		y[l] = a[l] + a[l+8]
	}
	return ((y[0] + y[2]) + (y[1] + y[3])) + ((y[4] + y[6]) + (y[5] + y[7]))
}

// The exponential: Cody and Waite's reduction to |r| ≤ ln2/2, the polynomial of
// Cephes' expf, each step one fma or one rounded operation.
const (
	expHigh  = 88.0  // above it the result is that of 88
	expLow   = -86.0 // below it the result is 0, so that none is subnormal
	log2e    = 1.44269504088896341
	ln2High  = 0.693359375
	ln2Low   = -2.12194440e-4
	expMagic = 12582912.0 // 1.5·2^23: adding it rounds to an integer in the low bits
	exp0     = 1.9875691500e-4
	exp1     = 1.3981999507e-3
	exp2     = 8.3334519073e-3
	exp3     = 4.1665795894e-2
	exp4     = 1.6666665459e-1
	exp5     = 5.0000001201e-1
)

// exp is e to the x within 2 units of the last place; 0 below expLow, and e to
// the expHigh above that.
func exp(x float32) float32 {
	if x < expLow {
		return 0
	}
	if x > expHigh {
		x = expHigh
	}
	t := fma(x, log2e, expMagic)
	n := t - expMagic
	r := fma(n, -ln2High, x)
	r = fma(n, -ln2Low, r)
	p := fma(exp0, r, exp1)
	p = fma(p, r, exp2)
	p = fma(p, r, exp3)
	p = fma(p, r, exp4)
	p = fma(p, r, exp5)
	y := fma(p, float32(r*r), r) + 1
	return math.Float32frombits(math.Float32bits(y) + math.Float32bits(t)<<23)
}
