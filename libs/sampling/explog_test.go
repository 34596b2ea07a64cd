package sampling

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
)

func TestLogAgreesWithPackageMath(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		y := 1 + 50_000*rnd.Float64()*rnd.Float64()*rnd.Float64()
		if got, want := log(y), math.Log(y); math.Abs(got-want) > 3e-16*math.Abs(want) {
			t.Fatalf("log(%v) = %v, want %v", y, got, want)
		}
	}
}

func TestWeightIsTheScaledExponential(t *testing.T) {
	for i := range 100_000 {
		x := lowest * float64(i) / 100_000
		got, want := float64(weight(x)), math.Exp(x)*(1<<oneBits)
		if math.Abs(got-want) > 0.5+1e-10*want {
			t.Fatalf("weight(%v) = %v, want %v", x, got, want)
		}
	}
	if got := weight(0); got != 1<<oneBits {
		t.Errorf("weight(0) = %d, want %d", got, uint64(1<<oneBits))
	}
	if got := weight(lowest); got != 0 {
		t.Errorf("weight(lowest) = %d, want 0", got)
	}
}

func TestLogAtItsEnds(t *testing.T) {
	if got := log(1); got != 0 {
		t.Errorf("log(1) = %v, want 0", got)
	}
	if got, want := log(1e45), math.Log(1e45); math.Abs(got-want) > 3e-16*want { // that of the least min_p
		t.Errorf("log(1e45) = %v, want %v", got, want)
	}
}

// The bits are part of the promise that a request has one answer everywhere. This test
// fails where a compiler fuses a product into a sum (GOAMD64=v3, arm64).
func TestWeightAndLogBitsNeverChange(t *testing.T) {
	h := fnv.New64a()
	var b [8]byte
	put := func(x float64) {
		for i, bits := 0, math.Float64bits(x); i < len(b); i, bits = i+1, bits>>8 {
			b[i] = byte(bits)
		}
		h.Write(b[:])
	}
	for i := range 100_000 {
		put(log(1 + float64(i)/7))
		put(float64(weight(lowest * float64(i) / 100_000)))
	}
	if got, want := h.Sum64(), uint64(goldenExpLog); got != want {
		t.Errorf("digest of the results = %#x, want %#x", got, want)
	}
}

const goldenExpLog = 0x97c7095f2f6aa7c3
