package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestRowOperationsGiveTheSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, s := range sets(t) {
		for _, n := range []int{16, 32, 64, 576, 1536} {
			what := fmt.Sprintf("%s, %d elements: ", s.Name(), n)
			x, y, w := floats(r, n), floats(r, n), floats(r, n)
			for i := range x {
				x[i] *= 30 // both ends of exp
			}
			both := func(name string, op func(Set, []float32) float32) {
				a, b := append([]float32(nil), x...), append([]float32(nil), x...)
				got, want := op(s, a), op(Generic(), b)
				sameBits(t, what+name, append(a, got), append(b, want))
			}
			both("softmax", func(s Set, x []float32) float32 {
				x[n-1], x[n-5] = float32(math.Inf(-1)), -1000
				return s.Softmax(x)
			})
			both("gate", func(s Set, x []float32) float32 { s.Gate(x, y); return 0 })
			both("add", func(s Set, x []float32) float32 { s.Add(x, y); return 0 })
			both("multiply", func(s Set, x []float32) float32 { s.Multiply(x, 0.3); return 0 })
			both("normalize", func(s Set, x []float32) float32 { s.Normalize(x, x, w, 1e-5); return 0 })
			table := floats(r, 2*min(n, 64))
			for i := 0; i < len(table); i += 2 {
				table[i+1] = table[i]
			}
			both("rotate", func(s Set, x []float32) float32 { s.Rotate(x, table); return 0 })
		}
	}
}

func TestAttentionGivesTheSameBitsAndReadsNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, s := range sets(t) {
		for _, dims := range []int{32, 64, 128} {
			for range 40 {
				compareAttention(t, s, r, dims)
			}
		}
	}
}

// compareAttention scores and mixes random rows over strips in random places of a
// memory that is NaN wherever nothing was written.
func compareAttention(t *testing.T, s Set, r *rand.Rand, dims int) {
	t.Helper()
	rows, positions := 1+r.IntN(7), 1+r.IntN(100)
	strips := (positions + Lanes - 1) / Lanes
	memory := make([]float32, 40*dims*Lanes)
	for i := range memory {
		memory[i] = float32(math.NaN())
	}
	offsets := r.Perm(40)[:strips]
	keys := Strips{memory, offsets, Lanes}
	for i := range offsets {
		offsets[i] *= dims * Lanes
	}
	width := (strips + 1) / 2 * 2 * Lanes
	for j := range positions {
		for d := range dims {
			memory[offsets[j/Lanes]+d*Lanes+j%Lanes] = float32(r.NormFloat64())
		}
	}
	q := Grid{floats(r, rows*(dims+16)), rows, dims + 16}
	got, want := Grid{make([]float32, rows*width), rows, width}, Grid{make([]float32, rows*width), rows, width}
	s.Scores(got, q, keys, dims)
	Generic().Scores(want, q, keys, dims)
	for m := range rows {
		sameBits(t, "scores", got.Row(m)[:positions], want.Row(m)[:positions])
	}

	for i := range memory {
		memory[i] = float32(math.NaN())
	}
	for j := range positions {
		copy(memory[offsets[j/Lanes]+j%Lanes*dims:], floats(r, dims))
	}
	values := Strips{memory, offsets, dims}
	a, b := Grid{make([]float32, rows*dims), rows, dims}, Grid{make([]float32, rows*dims), rows, dims}
	s.Mix(a, got, values, positions, dims)
	Generic().Mix(b, got, values, positions, dims)
	sameBits(t, "mix", a.Data, b.Data)
	for i, v := range a.Data {
		if v != v {
			t.Fatalf("mix: element %d is NaN: an unused position was read", i)
		}
	}
}
