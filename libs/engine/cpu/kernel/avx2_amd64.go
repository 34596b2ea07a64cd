package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// avx2 implements the operations in assembly for AVX2 with FMA.
//
// Assembly cannot be preempted: every call is bounded by one row group over the
// tokens of a block, or one run of strips, and takes microseconds.
type avx2 struct{}

var _ backend = avx2{}

func best() Set {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		return Set{avx2{}}
	}
	return Generic()
}

func (avx2) name() string { return "avx2" }

// check panics, as an index would, unless a slice has n elements.
func check(have, want int) {
	if have < want {
		panic("kernel: slice is too short")
	}
}

func (avx2) dot(y, x []float32, m *Matrix, g int) {
	groups := len(y) / GroupRows
	check(len(x), m.Cols)
	check(m.Groups(), g+groups)
	if groups == 0 {
		return
	}
	data := &m.data[g*m.groupBytes()]
	switch m.Kind {
	case Q4:
		dotQ4(&y[0], &x[0], data, m.Cols/blockColumns, groups)
	case Q8:
		dotQ8(&y[0], &x[0], data, m.Cols/blockColumns, groups)
	default:
		dotF32(&y[0], &x[0], data, m.Cols/blockColumns, groups)
	}
}

func (avx2) unpack(buffer []float32, m *Matrix, g int) {
	check(len(buffer), GroupRows*m.Cols)
	group := m.group(g)
	switch m.Kind {
	case Q4:
		unpackQ4AVX(&buffer[0], &group[0], m.Cols/blockColumns)
	case Q8:
		unpackQ8AVX(&buffer[0], &group[0], m.Cols/blockColumns)
	default:
		copy(buffer, m.plain(g))
	}
}

func (avx2) gemm(y, x Grid, weights, partial []float32) {
	cols := len(weights) / GroupRows
	check(len(x.Data), (x.Rows-1)*x.Stride+cols)
	check(len(y.Data), (x.Rows-1)*y.Stride+GroupRows)
	check(len(partial), partialFloats(cols, x.Rows))
	// Three tokens at a time, and the rest in pairs: 7 = 3 + 2 + 2, 8 = 3 + 3 + 2.
	triples, pairs := x.Rows/3, 0
	switch x.Rows % 3 {
	case 1:
		triples, pairs = triples-1, 2
	case 2:
		pairs = 1
	}
	run := runColumns(cols)
	for k := 0; k < cols; k += run {
		n := min(run, cols-k)
		mode := 0
		if k > 0 {
			mode |= loadPartial
		}
		if k+n < cols {
			mode |= storePartial
		}
		// Partial is nil in mode 0 and never touched then.
		p, w, blocks := unsafe.SliceData(partial), &weights[GroupRows*k], n/blockColumns
		if triples > 0 {
			gemm3(&y.Data[0], 4*y.Stride, &x.Data[k], 4*x.Stride, w, blocks, triples, p, mode)
		}
		if pairs > 0 {
			if mode != 0 {
				p = &partial[3*triples*GroupRows*Lanes]
			}
			gemm2(&y.Row(3 * triples)[0], 4*y.Stride, &x.Row(3 * triples)[k], 4*x.Stride, w, blocks, pairs, p, mode)
		}
	}
}

const (
	loadPartial  = 1
	storePartial = 2
)

func (avx2) scores(s, q Grid, keys Strips, dims int) {
	strips := len(keys.Offsets)
	if strips == 0 {
		return
	}
	check(len(q.Data), (q.Rows-1)*q.Stride+dims)
	check(len(s.Data), (q.Rows-1)*s.Stride+(strips+1)/2*2*Lanes)
	for _, offset := range keys.Offsets {
		_ = keys.Memory[offset : offset+(dims-1)*keys.Stride+Lanes]
	}
	s0, q0, memory := &s.Data[0], &q.Data[0], &keys.Memory[0]
	if pairs := strips / 2; pairs > 0 {
		scoresRows(q.Rows, s0, 4*s.Stride, q0, 4*q.Stride, memory, &keys.Offsets[0], pairs, 4*keys.Stride, dims)
	}
	if strips%2 == 1 {
		last := keys.Offsets[strips-1]
		twice := [2]int{last, last}
		s0 = &s.Data[(strips-1)*Lanes]
		scoresRows(q.Rows, s0, 4*s.Stride, q0, 4*q.Stride, memory, &twice[0], 1, 4*keys.Stride, dims)
	}
}

// scoresRows calls directly: a function value would make the arguments escape.
func scoresRows(rows int, s *float32, sStride int, q *float32, qStride int, memory *float32, offsets *int, pairs, stride, dims int) {
	switch rows {
	case 1:
		scores1(s, sStride, q, qStride, memory, offsets, pairs, stride, dims)
	case 2:
		scores2(s, sStride, q, qStride, memory, offsets, pairs, stride, dims)
	default:
		scores3(s, sStride, q, qStride, memory, offsets, pairs, stride, dims)
	}
}

func (avx2) mix(out, p Grid, values Strips, positions int) {
	if positions <= 0 {
		return
	}
	check(len(p.Data), (out.Rows-1)*p.Stride+positions)
	check(len(out.Data), (out.Rows-1)*out.Stride+2*Lanes)
	check(len(values.Offsets)*Lanes, positions)
	for i, rest := 0, positions; rest > 0; i, rest = i+1, rest-Lanes {
		offset := values.Offsets[i]
		_ = values.Memory[offset : offset+(min(rest, Lanes)-1)*values.Stride+2*Lanes]
	}
	o, w, memory, offsets := &out.Data[0], &p.Data[0], &values.Memory[0], &values.Offsets[0]
	switch out.Rows {
	case 1:
		mix1(o, 4*out.Stride, w, 4*p.Stride, memory, offsets, positions, 4*values.Stride)
	case 2:
		mix2(o, 4*out.Stride, w, 4*p.Stride, memory, offsets, positions, 4*values.Stride)
	default:
		mix3(o, 4*out.Stride, w, 4*p.Stride, memory, offsets, positions, 4*values.Stride)
	}
}

func (avx2) Softmax(s []float32) float32          { return softmax(&s[0], len(s)/Lanes) }
func (avx2) sumSquares(x []float32) float32       { return sumSquares(&x[0], len(x)/Lanes) }
func (avx2) Multiply(x []float32, factor float32) { multiply(&x[0], len(x)/8, factor) }

func (avx2) scale(y, x, w []float32, factor float32) {
	check(min(len(y), len(w)), len(x))
	scale(&y[0], &x[0], &w[0], len(x)/8, factor)
}

func (avx2) Gate(g, u []float32) {
	check(len(u), len(g))
	gate(&g[0], &u[0], len(g)/8)
}

func (avx2) Rotate(x, table []float32) {
	dims := len(table) / 2
	rotate(&x[0], &table[0], dims/8, len(x)/dims)
}

func (avx2) Add(x, y []float32) {
	check(len(x), len(y))
	add(&x[0], &y[0], len(y)/8)
}
