// Package kernel is the arithmetic of the CPU engine: packed weight matrices and
// the operations of a transformer over plain slices, in f32.
//
// The order of every reduction is part of the format, so that an operation gives
// the same bits in AVX2 assembly and in plain Go, on any architecture:
//
//   - a weight is w = fma(d, q, m) rounded to f32 (Q8: d·q);
//   - an output of a matrix has sixteen lanes; lane k mod 16 takes
//     acc = fma(x[k], w[k], acc) in ascending k, never split in k; the lanes are
//     added as y[l] = a[l]+a[l+8], ((y0+y2)+(y1+y3))+((y4+y6)+(y5+y7));
//   - an attention score is one chain of fma over the head dimension, a mixed value
//     one chain over the positions from 0; softmax sums in lanes by position;
//   - exp is one polynomial of our own.
//
// It knows nothing of models, files or threads, and starts no goroutine. The
// assembly is written by gen: go generate. NaN payloads are not part of the promise.
package kernel

//go:generate go run ./gen -o kernels_amd64.s

// Lanes is the number of partial sums of a reduction. Lengths are multiples of it.
const Lanes = 16

// Set is one implementation of all operations. The zero value is not usable.
type Set struct{ backend }

// Generic is plain Go: right on every architecture, and slow.
func Generic() Set { return Set{generic{}} }

// Best is the fastest set this machine can run.
func Best() Set { return best() }

// Name says which implementation it is: "generic" or "avx2".
func (s Set) Name() string { return s.name() }

// Valid reports whether the set is usable, that is, not the zero value.
func (s Set) Valid() bool { return s.backend != nil }

// Grid is Rows rows of floats, Stride elements apart.
type Grid struct {
	Data   []float32
	Rows   int
	Stride int
}

// Row is the tail of the data that starts with row i.
func (g Grid) Row(i int) []float32 { return g.Data[i*g.Stride:] }

// slice is the rows [from, from+n).
func (g Grid) slice(from, n int) Grid { return Grid{g.Row(from), n, g.Stride} }

// Strips are runs of sixteen positions in a memory: row r of strip i is at
// Memory[Offsets[i] + r·Stride].
type Strips struct {
	Memory  []float32
	Offsets []int
	Stride  int
}

// backend is what an implementation provides. Its exported methods are Set's.
type backend interface {
	name() string
	// dot multiplies one token x by the groups from g: y has four elements a group.
	dot(y, x []float32, m *Matrix, g int)
	// unpack writes the weights of group g as [Cols/16][GroupRows][16].
	unpack(buffer []float32, m *Matrix, g int)
	// gemm multiplies at least two tokens x by an unpacked group: y rows have four
	// elements. Partial has partialFloats elements of scratch.
	gemm(y, x Grid, weights, partial []float32)
	// scores and mix take at most maxRows rows.
	scores(s, q Grid, keys Strips, dims int)
	mix(out, p Grid, values Strips, positions int)
	sumSquares(x []float32) float32
	scale(y, x, w []float32, factor float32)

	// Softmax replaces s by exp(s − max) and returns the sum. Padding is −Inf.
	Softmax(s []float32) float32
	// Gate replaces g by SiLU(g)·u.
	Gate(g, u []float32)
	// Rotate turns the pairs (2i, 2i+1) of each head of x by the angles of the
	// table: the cosines of one head, each twice, then the sines likewise.
	Rotate(x, table []float32)
	// Add adds y to x.
	Add(x, y []float32)
	// Multiply scales x by a factor.
	Multiply(x []float32, factor float32)
}

const maxRows = 3

// Part is a run of row groups of a matrix.
type Part struct {
	Matrix *Matrix
	First  int // group
	Groups int
}

// fusedTokens is the largest batch for which unpacking weights once per token is
// cheaper than going through a buffer.
const fusedTokens = 2

// maxRunColumns is how many columns of four rows and three tokens fit a
// first-level data cache of 32 KiB with room to spare. Measured on a Zen 3: rows
// of 1,536 in runs of 768, 512 and 384 give 60, 76 and 73 GFLOP/s.
const maxRunColumns = 576

// runColumns cuts a row into equal runs of at most maxRunColumns.
func runColumns(cols int) int {
	runs := (cols + maxRunColumns - 1) / maxRunColumns
	return ((cols+runs-1)/runs + blockColumns - 1) / blockColumns * blockColumns
}

// partialFloats is the room for the accumulators of a row group between runs.
func partialFloats(cols, tokens int) int {
	if cols <= maxRunColumns {
		return 0
	}
	return GroupRows * Lanes * tokens
}

// ScratchFloats is the scratch that Linear and Lookup need for rows of cols
// weights and up to so many tokens.
func ScratchFloats(cols, tokens int) int { return GroupRows*cols + partialFloats(cols, tokens) }

// Linear computes y = W·x for every row of x: row t of y receives
// GroupRows·Groups outputs. Scratch holds ScratchFloats.
func (s Set) Linear(y, x Grid, w Part, scratch []float32) {
	m := w.Matrix
	if x.Rows <= fusedTokens {
		for t := range x.Rows {
			s.dot(y.Row(t)[:w.Groups*GroupRows], x.Row(t)[:m.Cols], m, w.First)
		}
		return
	}
	buffer, partial := scratch[:GroupRows*m.Cols], scratch[GroupRows*m.Cols:]
	for g := range w.Groups {
		weights := buffer
		if m.Kind == F32 {
			weights = m.plain(w.First + g)
		} else {
			s.unpack(buffer, m, w.First+g)
		}
		s.gemm(Grid{y.Data[g*GroupRows:], y.Rows, y.Stride}, x, weights, partial)
	}
}

// Lookup writes one row of the matrix, Cols weights, to dst.
func (s Set) Lookup(dst []float32, m *Matrix, row int, scratch []float32) {
	buffer := scratch[:GroupRows*m.Cols]
	if m.Kind == F32 {
		buffer = m.plain(row / GroupRows)
	} else {
		s.unpack(buffer, m, row/GroupRows)
	}
	for k := 0; k < m.Cols; k += Lanes {
		copy(dst[k:k+Lanes], buffer[GroupRows*k+row%GroupRows*Lanes:])
	}
}

// Scores fills s[m][16i+j] with the product of query row m and position j of strip
// i of transposed keys: row d of a strip is dimension d of sixteen positions.
// Rows of s are multiples of 32 long; what lies behind the last strip is undefined.
func (s Set) Scores(scores, q Grid, keys Strips, dims int) {
	for m := 0; m < q.Rows; m += maxRows {
		n := min(maxRows, q.Rows-m)
		s.scores(scores.slice(m, n), q.slice(m, n), keys, dims)
	}
}

// Mix adds to row m of out, which is dims long, the value rows of the positions
// from 0, each weighted with p[m][position]; row r of a strip is its position r.
// It reads no position from positions on. Dims is a multiple of 32.
func (s Set) Mix(out, p Grid, values Strips, positions, dims int) {
	for m := 0; m < out.Rows; m += maxRows {
		n := min(maxRows, out.Rows-m)
		for d := 0; d < dims; d += 32 {
			tile := Grid{out.Row(m)[d:], n, out.Stride}
			strips := Strips{values.Memory[d:], values.Offsets, values.Stride}
			s.mix(tile, p.slice(m, n), strips, positions)
		}
	}
}

// Normalize writes RMSNorm(x)·w to y, which may be x.
func (s Set) Normalize(y, x, w []float32, epsilon float32) {
	mean := s.sumSquares(x) / float32(len(x))
	s.scale(y[:len(x)], x, w[:len(x)], 1/sqrt(mean+epsilon))
}
