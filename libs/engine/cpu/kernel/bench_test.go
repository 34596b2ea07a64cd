package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// measure reports the rate of the fastest call: the figure that means something
// while others use the machine as well.
func measure(b *testing.B, flops float64, do func()) {
	fastest := time.Duration(1<<63 - 1)
	for b.Loop() {
		start := time.Now()
		do()
		fastest = min(fastest, time.Since(start))
	}
	b.ReportMetric(flops/1e9/fastest.Seconds(), "GFLOP/s")
}

func BenchmarkLinear(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for name, kind := range kinds {
		for _, cols := range []int{576, 1536} {
			m := packed(b, r, kind, 256, cols)
			for _, n := range []int{1, 2, 3, 4, 8, 54, 126} {
				b.Run(fmt.Sprintf("kind=%s/cols=%d/tokens=%d", name, cols, n), func(b *testing.B) {
					const groups = 16
					x := Grid{floats(r, n*cols), n, cols}
					y := Grid{make([]float32, n*groups*4), n, groups * 4}
					buffer := make([]float32, ScratchFloats(cols, n))
					measure(b, 2*float64(n*cols*m.Rows), func() {
						for g := 0; g < m.Groups(); g += groups {
							Best().Linear(y, x, Part{m, g, groups}, buffer)
						}
					})
				})
			}
		}
	}
}

func BenchmarkAttention(b *testing.B) {
	const dims, rows = 64, 3
	r := rand.New(rand.NewPCG(1, 1))
	memory := floats(r, 1<<18)
	q, p := Grid{floats(r, rows*dims), rows, dims}, Grid{floats(r, rows*64), rows, 64}
	s, out := Grid{make([]float32, rows*64), rows, 64}, Grid{make([]float32, rows*dims), rows, dims}
	offsets := []int{0, 46080, 92160, 138240}
	flops := 2. * rows * dims * 64
	b.Run("scores", func(b *testing.B) {
		measure(b, 100*flops, func() {
			for range 100 {
				Best().Scores(s, q, Strips{memory, offsets, 16}, dims)
			}
		})
	})
	b.Run("mix", func(b *testing.B) {
		measure(b, 100*flops, func() {
			for range 100 {
				Best().Mix(out, p, Strips{memory, offsets, dims}, 64, dims)
			}
		})
	})
	x := floats(r, 2048)
	b.Run("softmax", func(b *testing.B) { measure(b, float64(len(x)), func() { Best().Softmax(x) }) })
	b.Run("gate", func(b *testing.B) { measure(b, float64(len(x)), func() { Best().Gate(x, x) }) })
}

func BenchmarkPack(b *testing.B) {
	const rows, cols = 1536, 576
	for name, kind := range kinds {
		src, dst := make([]byte, rows*RowBytes(kind, cols)), make([]byte, PackedBytes(kind, rows, cols))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if _, err := Pack(kind, rows, cols, src, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
