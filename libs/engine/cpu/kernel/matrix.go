package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// Kind is how a Matrix keeps its weights.
type Kind uint8

const (
	// F32 keeps plain weights: per 16 columns four rows of 16 floats.
	F32 Kind = iota + 1
	// Q4 keeps GGUF's Q4_1: per 32 columns two vectors of eight 32-bit words, then
	// four scales and four minima. Word l of vector c holds the columns 16c+l (bits
	// 0–15) and 16c+8+l (bits 16–31), four bits per row. The scale of row r is
	// stored divided by 16^r, an exact operation, so that the nibble of row r is
	// used where it lies: (d/16^r)·(q·16^r) = d·q.
	Q4
	// Q8 keeps GGUF's Q8_0: per 32 columns two runs (columns 0–15, 16–31) of four
	// rows of 16 signed bytes, then the four scales.
	Q8
)

// GroupRows is the number of rows that are packed together.
const GroupRows = 4

const (
	q4BlockBytes = 64 + 32
	q8BlockBytes = 128 + 16
	blockColumns = 32
)

// Matrix is a packed weight matrix of Rows outputs and Cols inputs. Rows are
// padded with zero weights to a multiple of GroupRows. It is immutable once packed.
type Matrix struct {
	Kind Kind
	Rows int
	Cols int // a multiple of 32
	data []byte
}

// Groups is the number of packed row groups.
func (m *Matrix) Groups() int { return (m.Rows + GroupRows - 1) / GroupRows }

func (m *Matrix) groupBytes() int { return groupBytes(m.Kind, m.Cols) }

func groupBytes(kind Kind, cols int) int {
	switch kind {
	case Q4:
		return cols / blockColumns * q4BlockBytes
	case Q8:
		return cols / blockColumns * q8BlockBytes
	default:
		return cols * GroupRows * 4
	}
}

// PackedBytes is the size of a packed matrix of rows × cols.
func PackedBytes(kind Kind, rows, cols int) int {
	return (rows + GroupRows - 1) / GroupRows * groupBytes(kind, cols)
}

// RowBytes is the size of one row of cols weights in a GGUF file.
func RowBytes(kind Kind, cols int) int {
	switch kind {
	case Q4:
		return cols / blockColumns * 20
	case Q8:
		return cols / blockColumns * 34
	default:
		return cols * 4
	}
}

// Pack lays out the row-major GGUF weights src in dst, which is memory of
// PackedBytes, aligned to 4, and belongs to the matrix from then on.
func Pack(kind Kind, rows, cols int, src, dst []byte) (*Matrix, error) {
	switch {
	case kind != F32 && kind != Q4 && kind != Q8:
		return nil, fmt.Errorf("pack matrix: kind is %d, want F32, Q4 or Q8", kind)
	case rows <= 0 || cols <= 0 || cols%blockColumns != 0:
		return nil, fmt.Errorf("pack matrix: %d × %d, want at least one row and columns a multiple of %d", rows, cols, blockColumns)
	case len(src) != rows*RowBytes(kind, cols):
		return nil, fmt.Errorf("pack matrix: source has %d bytes, want %d", len(src), rows*RowBytes(kind, cols))
	case len(dst) != PackedBytes(kind, rows, cols):
		return nil, fmt.Errorf("pack matrix: destination has %d bytes, want %d", len(dst), PackedBytes(kind, rows, cols))
	}
	m := &Matrix{Kind: kind, Rows: rows, Cols: cols, data: dst}
	rowBytes := RowBytes(kind, cols)
	padding := make([]byte, rowBytes) // zero in every kind
	for g := range m.Groups() {
		var lines [GroupRows][]byte
		for r := range lines {
			if lines[r] = padding; g*GroupRows+r < rows {
				lines[r] = src[(g*GroupRows+r)*rowBytes:][:rowBytes]
			}
		}
		switch kind {
		case Q4:
			packQ4(m.group(g), lines)
		case Q8:
			packQ8(m.group(g), lines)
		default:
			packF32(m.group(g), lines)
		}
	}
	return m, nil
}

// packQ4 weaves four rows. Byte j of a row's block holds the columns j (low
// nibble) and 16+j (high nibble); eight bytes are handled at once.
func packQ4(group []byte, lines [GroupRows][]byte) {
	const low = 0x0f0f0f0f0f0f0f0f
	for at := 0; at < len(lines[0]); at, group = at+20, group[q4BlockBytes:] {
		var q [GroupRows][2]uint64
		for r, line := range lines {
			block := line[at:][:20]
			q[r] = [2]uint64{binary.LittleEndian.Uint64(block[4:]), binary.LittleEndian.Uint64(block[12:])}
			putFloat(group[64+4*r:], Half(binary.LittleEndian.Uint16(block))/float32(int(1)<<(4*r)))
			putFloat(group[80+4*r:], Half(binary.LittleEndian.Uint16(block[2:])))
		}
		for c := range 2 { // columns 0–15, then 16–31
			var pairs [4]uint64 // rows 0, 1 and rows 2, 3 of columns 0–7, then of 8–15
			for half := range 2 {
				pairs[2*half] = q[0][half]>>(4*c)&low | q[1][half]>>(4*c)&low<<4
				pairs[2*half+1] = q[2][half]>>(4*c)&low | q[3][half]>>(4*c)&low<<4
			}
			for word := range 8 {
				shift := 8 * word
				w := uint32(pairs[0]>>shift&255) | uint32(pairs[1]>>shift&255)<<8 |
					uint32(pairs[2]>>shift&255)<<16 | uint32(pairs[3]>>shift&255)<<24
				binary.LittleEndian.PutUint32(group[32*c+4*word:], w)
			}
		}
	}
}

func packQ8(group []byte, lines [GroupRows][]byte) {
	for at := 0; at < len(lines[0]); at, group = at+34, group[q8BlockBytes:] {
		for r, line := range lines {
			block := line[at:][:34]
			copy(group[16*r:], block[2:18])
			copy(group[64+16*r:], block[18:34])
			putFloat(group[128+4*r:], Half(binary.LittleEndian.Uint16(block)))
		}
	}
}

func packF32(group []byte, lines [GroupRows][]byte) {
	for at := 0; at < len(lines[0]); at, group = at+64, group[256:] {
		for r, line := range lines {
			copy(group[64*r:], line[at:][:64])
		}
	}
}

func putFloat(b []byte, f float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(f)) }

func float(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

// Half converts an IEEE 754 half to float32, exactly.
func Half(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&31), uint32(h&1023)
	switch exponent {
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	case 0:
		f := float32(fraction) / (1 << 24)
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// group is the packed bytes of one row group.
func (m *Matrix) group(g int) []byte { return m.data[g*m.groupBytes():][:m.groupBytes()] }

// plain is a group of an F32 matrix as floats; on big-endian machines it is not usable, and none is supported.
func (m *Matrix) plain(g int) []float32 {
	b := m.group(g)
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
