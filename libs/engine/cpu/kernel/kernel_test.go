package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// sets are what has to agree with plain Go on this machine.
func sets(t testing.TB) []Set {
	if best := Best(); best.Name() != Generic().Name() {
		return []Set{best}
	}
	t.Log("no vector instructions here: plain Go is compared with itself")
	return []Set{Generic()}
}

func floats(r *rand.Rand, n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(r.NormFloat64())
	}
	return f
}

// packed makes a matrix of random weights.
func packed(t testing.TB, r *rand.Rand, kind Kind, rows, cols int) *Matrix {
	t.Helper()
	src := make([]byte, rows*RowBytes(kind, cols))
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	half := func(at int, negative uint16) { // between 2^-8 and 2^-4
		binary.LittleEndian.PutUint16(src[at:], uint16(7+r.IntN(4))<<10|uint16(r.Uint32())&1023|negative)
	}
	switch kind {
	case Q4:
		for at := 0; at < len(src); at += 20 {
			half(at, 0)
			half(at+2, 0x8000)
		}
	case Q8:
		for at := 0; at < len(src); at += 34 {
			half(at, 0)
		}
	default:
		for at := 0; at < len(src); at += 4 {
			putFloat(src[at:], float32(r.NormFloat64()))
		}
	}
	m, err := Pack(kind, rows, cols, src, make([]byte, PackedBytes(kind, rows, cols)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %g (%08x), want %g (%08x)", what, i,
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

var kinds = map[string]Kind{"q4": Q4, "q8": Q8, "f32": F32}

func TestLinearGivesTheSameBitsForEveryBatchAndSet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, kind := range kinds {
		for _, shape := range [][2]int{{4, 32}, {8, 64}, {13, 96}, {36, 576}, {5, 1632}} {
			m := packed(t, r, kind, shape[0], shape[1])
			const most = 37
			outputs := m.Groups() * GroupRows
			x := Grid{floats(r, most*(m.Cols+16)), most, m.Cols + 16}
			buffer := make([]float32, ScratchFloats(m.Cols, most))
			want := Grid{make([]float32, most*outputs), most, outputs}
			Generic().Linear(want, x, Part{m, 0, m.Groups()}, buffer)
			for _, s := range sets(t) {
				for n := 1; n <= most; n++ {
					y := Grid{make([]float32, n*(outputs+4)), n, outputs + 4}
					s.Linear(y, Grid{x.Data, n, x.Stride}, Part{m, 0, m.Groups()}, buffer)
					for i := range n {
						sameBits(t, fmt.Sprintf("%s %s %v, batch %d, token %d", s.Name(), name, shape, n, i),
							y.Row(i)[:outputs], want.Row(i)[:outputs])
					}
				}
				y := Grid{make([]float32, most*4), most, 4}
				s.Linear(y, x, Part{m, m.Groups() - 1, 1}, buffer)
				for i := range most {
					sameBits(t, "last group", y.Row(i)[:4], want.Row(i)[outputs-4:outputs])
				}
			}
		}
	}
}

// The format's order, spelled out independently of the packed layout.
func TestLinearFollowsTheFormat(t *testing.T) {
	const cols = 64
	r := rand.New(rand.NewPCG(3, 4))
	src := make([]byte, RowBytes(Q4, cols))
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for at := 0; at < len(src); at += 20 {
		binary.LittleEndian.PutUint16(src[at:], 0x2a17)
		binary.LittleEndian.PutUint16(src[at+2:], 0xb1c3)
	}
	x := floats(r, cols)
	var acc [16]float32
	for k := range cols {
		b := src[k/32*20:]
		q := b[4+k%16] >> (k % 32 / 16 * 4) & 15
		w := fma(Half(binary.LittleEndian.Uint16(b)), float32(q), Half(binary.LittleEndian.Uint16(b[2:])))
		acc[k%16] = fma(x[k], w, acc[k%16])
	}
	m, err := Pack(Q4, 1, cols, src, make([]byte, PackedBytes(Q4, 1, cols)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(sets(t), Generic()) {
		y := make([]float32, 4)
		s.Linear(Grid{y, 1, 4}, Grid{x, 1, cols}, Part{m, 0, 1}, make([]float32, 4*cols))
		sameBits(t, s.Name(), y, []float32{tree(&acc), 0, 0, 0})
	}
}

func TestLookupUndoesPack(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for name, kind := range kinds {
		m := packed(t, r, kind, 7, 96)
		for _, s := range sets(t) {
			for row := range m.Rows {
				got, want, one := make([]float32, 96), make([]float32, 96), make([]float32, 96)
				Generic().Lookup(want, m, row, make([]float32, 4*96))
				s.Lookup(got, m, row, make([]float32, 4*96))
				sameBits(t, name, got, want)
				// The product with a unit vector is the weight itself.
				one[33] = 1
				y := make([]float32, 8)
				s.Linear(Grid{y, 1, 8}, Grid{one, 1, 96}, Part{m, 0, 2}, make([]float32, 4*96))
				if y[row] != got[33] {
					t.Fatalf("%s row %d: weight 33 is %g, looked up %g", name, row, y[row], got[33])
				}
			}
		}
	}
}

func TestFmaRoundsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	random := func() float32 {
		return math.Float32frombits(r.Uint32()&0x807fffff | uint32(90+r.IntN(70))<<23)
	}
	for range 200_000 {
		a, b, c := random(), random(), random()
		if r.IntN(2) == 0 { // near cancellation and near halves, where double rounding shows
			c = math.Float32frombits(math.Float32bits(-float32(a*b)) + r.Uint32()%5<<(r.Uint32()%24))
		}
		exact := new(big.Float).SetPrec(600).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		exact.Add(exact, big.NewFloat(float64(c)))
		want, _ := exact.Float32()
		if got := fma(a, b, c); got != want {
			t.Fatalf("fma(%g, %g, %g) = %g, want %g", a, b, c, got, want)
		}
	}
	// (1 + 2^-12)² is half way between two floats: the last bit of c decides, and
	// float32(math.FMA(…)) loses it.
	const a, tiny = 1 + 1./(1<<12), 1. / (1 << 30) / (1 << 30)
	if got, want := fma(a, a, tiny), math.Nextafter32(1+1./(1<<11), 2); got != want {
		t.Fatalf("fma rounds twice: %g, want %g", got, want)
	}
}

func TestExpIsAccurate(t *testing.T) {
	for x := float32(-86); x <= 88; x += 0.0173 {
		got, want := float64(exp(x)), math.Exp(float64(x))
		if math.Abs(got-want) > 2.5e-7*want {
			t.Fatalf("exp(%g) = %g, want %g", x, got, want)
		}
	}
	if exp(0) != 1 || exp(float32(math.Inf(-1))) != 0 || exp(-87) != 0 {
		t.Fatalf("exp(0) = %g, exp(-Inf) = %g, exp(-87) = %g, want 1, 0, 0", exp(0), exp(float32(math.Inf(-1))), exp(-87))
	}
}
