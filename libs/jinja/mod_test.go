package jinja

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestModIsTheStandardLibrarys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []float64{0, math.Copysign(0, -1), 1, -1, 5e-324, 2.5e-310, math.MaxFloat64, 1e308, 1e-300, math.Inf(1), math.Inf(-1), math.NaN(), 3, 1 << 60}
	for range 500 {
		values = append(values, math.Float64frombits(r.Uint64()))
	}
	for _, a := range values {
		for _, b := range values {
			got, want := mod(a, b), math.Mod(a, b)
			if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("mod(%v, %v) = %v, want %v", a, b, got, want)
			}
		}
	}
}

func BenchmarkMod(b *testing.B) {
	for b.Loop() {
		mod(1e308, 1e-300)
	}
}
