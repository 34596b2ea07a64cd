package kernel

import (
	"encoding/binary"
	"math"
)

// generic implements the operations in plain Go. Products are converted
// explicitly, since the compiler may fuse x*y + z on some architectures.
type generic struct{}

var _ backend = generic{}

func (generic) name() string { return "generic" }

func (b generic) dot(y, x []float32, m *Matrix, g int) {
	weights := make([]float32, GroupRows*m.Cols)
	for ; len(y) > 0; y, g = y[GroupRows:], g+1 {
		b.unpack(weights, m, g)
		b.gemm(Grid{y, 1, 0}, Grid{x, 1, 0}, weights, nil)
	}
}

func (generic) unpack(buffer []float32, m *Matrix, g int) {
	group := m.group(g)
	switch m.Kind {
	case Q4:
		for ; len(group) > 0; group, buffer = group[q4BlockBytes:], buffer[GroupRows*blockColumns:] {
			unpackQ4(buffer, group)
		}
	case Q8:
		for ; len(group) > 0; group, buffer = group[q8BlockBytes:], buffer[GroupRows*blockColumns:] {
			unpackQ8(buffer, group)
		}
	default:
		copy(buffer, m.plain(g))
	}
}

func unpackQ4(buffer []float32, block []byte) {
	for r := range GroupRows {
		scale, minimum := float(block[64+4*r:]), float(block[80+4*r:])
		for k := range blockColumns {
			c, half, word := k/16, k/8%2, k%8
			bits := binary.LittleEndian.Uint32(block[32*c+4*word:]) >> (16 * half)
			q := float32(bits & (15 << (4 * r)))
			buffer[(c*GroupRows+r)*Lanes+k%16] = fma(scale, q, minimum)
		}
	}
}

func unpackQ8(buffer []float32, block []byte) {
	for r := range GroupRows {
		scale := float(block[128+4*r:])
		for k := range blockColumns {
			at := (k/16*GroupRows+r)*Lanes + k%16
			buffer[at] = scale * float32(int8(block[at]))
		}
	}
}

func (generic) gemm(y, x Grid, buffer, _ []float32) {
	cols := len(buffer) / GroupRows
	for t := range x.Rows {
		token := x.Row(t)[:cols]
		for r := range GroupRows {
			var acc [Lanes]float32
			for k := 0; k < cols; k += Lanes {
				weights := buffer[GroupRows*k+r*Lanes:][:Lanes]
				for l, w := range weights {
					acc[l] = fma(token[k+l], w, acc[l])
				}
			}
			y.Row(t)[r] = tree(&acc)
		}
	}
}

func (generic) scores(s, q Grid, keys Strips, dims int) {
	for m := range q.Rows {
		for i, offset := range keys.Offsets {
			var acc [Lanes]float32
			for d, query := range q.Row(m)[:dims] {
				for j, key := range keys.Memory[offset+d*keys.Stride:][:Lanes] {
					acc[j] = fma(query, key, acc[j])
				}
			}
			copy(s.Row(m)[i*Lanes:], acc[:])
		}
	}
}

func (generic) mix(out, p Grid, values Strips, positions int) {
	for m := range out.Rows {
		row := out.Row(m)[:2*Lanes]
		for j, weight := range p.Row(m)[:positions] {
			value := values.Memory[values.Offsets[j/Lanes]+j%Lanes*values.Stride:][:2*Lanes]
			for d := range row {
				row[d] = fma(weight, value[d], row[d])
			}
		}
	}
}

func (generic) Softmax(s []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range s {
		top = max(top, v)
	}
	var acc [Lanes]float32
	for j, v := range s {
		s[j] = exp(v - top)
		acc[j%Lanes] += s[j]
	}
	return tree(&acc)
}

func (generic) sumSquares(x []float32) float32 {
	var acc [Lanes]float32
	for k, v := range x {
		acc[k%Lanes] = fma(v, v, acc[k%Lanes])
	}
	return tree(&acc)
}

func (generic) scale(y, x, w []float32, factor float32) {
	for k, v := range x {
		y[k] = float32(v*factor) * w[k]
	}
}

func (generic) Gate(g, u []float32) {
	for k, v := range g {
		g[k] = float32(v/(1+exp(-v))) * u[k]
	}
}

func (generic) Rotate(x, table []float32) {
	dims := len(table) / 2
	for ; len(x) > 0; x = x[dims:] {
		for d := 0; d < dims; d += 2 {
			cos, sin, even, odd := table[d], table[dims+d], x[d], x[d+1]
			x[d] = float32(even*cos) - float32(odd*sin)
			x[d+1] = float32(odd*cos) + float32(even*sin)
		}
	}
}

func (generic) Add(x, y []float32) {
	for k, v := range y {
		x[k] += v
	}
}

func (generic) Multiply(x []float32, factor float32) {
	for k := range x {
		x[k] *= factor
	}
}

// sqrt rounds once: float64 has more than twice the bits.
func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }
