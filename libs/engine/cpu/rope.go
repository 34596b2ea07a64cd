package cpu

import "math"

// rotation makes the angles of rotary positions. It computes in float64 with
// operations that round the same way on every architecture: the functions of
// package math do not promise that, and the compiler may fuse x·y + z.
type rotation struct {
	// frequency is the angle per position of each pair of a head's elements.
	frequency []float64
}

func newRotation(s Shape, factors []float32) rotation {
	r := rotation{frequency: make([]float64, s.HeadDim/2)}
	step := logarithm(s.RopeBase) / float64(s.HeadDim/2)
	for i := range r.frequency {
		f := exponential(-float64(i)*step) / s.RopeScale
		if factors != nil {
			f /= float64(factors[i])
		}
		r.frequency[i] = f
	}
	return r
}

// table fills what kernel.Set.Rotate wants for a position: for each pair its
// cosine twice, then for each pair its sine twice.
func (r rotation) table(dst []float32, position int) {
	dims := 2 * len(r.frequency)
	for i, f := range r.frequency {
		sin, cos := sineCosine(float64(position) * f)
		dst[2*i], dst[2*i+1] = float32(cos), float32(cos)
		dst[dims+2*i], dst[dims+2*i+1] = float32(sin), float32(sin)
	}
}

const (
	ln2High = 6.93147180369123816490e-01 // ln 2 = ln2High + ln2Low, as in fdlibm
	ln2Low  = 1.90821492927058770002e-10
	// π/2 in three parts, the first two of 33 bits, as in fdlibm.
	halfPi1 = 1.57079632673412561417e+00
	halfPi2 = 6.07710050630396597660e-11
	halfPi3 = 2.02226624879595063154e-21
)

// logarithm is ln x for x ≥ 1, by the series of artanh.
func logarithm(x float64) float64 {
	fraction, exponent := math.Frexp(x) // exact
	if fraction < math.Sqrt2/2 {
		fraction, exponent = 2*fraction, exponent-1
	}
	t := (fraction - 1) / (fraction + 1)
	square := float64(t * t)
	sum := 0.0
	for k := 27; k >= 1; k -= 2 {
		sum = float64(sum*square) + 1/float64(k)
	}
	return float64(float64(exponent)*ln2High) + (float64(2*t*sum) + float64(float64(exponent)*ln2Low))
}

// exponential is e to the x for -100 ≤ x ≤ 0, by Taylor's series after reduction.
func exponential(x float64) float64 {
	n := math.RoundToEven(float64(x * (1 / math.Ln2)))
	r := (x - float64(n*ln2High)) - float64(n*ln2Low)
	sum := 1.0
	for k := 16; k >= 1; k-- {
		sum = 1 + float64(sum*r)/float64(k)
	}
	return math.Ldexp(sum, int(n))
}

// sineCosine is accurate to about 1e-15 for angles below 2^24.
func sineCosine(angle float64) (sin, cos float64) {
	n := math.RoundToEven(float64(angle * (2 / math.Pi)))
	r := ((angle - float64(n*halfPi1)) - float64(n*halfPi2)) - float64(n*halfPi3)
	square := float64(r * r)
	sin, cos = 1, 1
	for k := 18; k >= 2; k -= 2 {
		cos = 1 - float64(square*cos)/float64(k*(k-1))
		sin = 1 - float64(square*sin)/float64(k*(k+1))
	}
	sin = float64(sin * r)
	switch int64(n) & 3 {
	case 1:
		return cos, -sin
	case 2:
		return -sin, -cos
	case 3:
		return -cos, sin
	}
	return sin, cos
}
