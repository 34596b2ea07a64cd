package sampling

import (
	"math"
	"testing"
)

// The vectors are kat_vectors of the Random123 distribution, version 1.14.
func TestPhiloxKnownAnswers(t *testing.T) {
	const all = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{all, all, all, all}, [2]uint32{all, all}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

func TestRandomDependsOnSeedChoiceAndPosition(t *testing.T) {
	seen := map[uint64]bool{}
	for _, k := range [][3]uint64{
		{0, 0, 0}, {1, 0, 0}, {1 << 32, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 1 << 32}, {1, 1, 0}, {0, 1, 1},
	} {
		r := random(k[0], int(k[1]), int(k[2]))
		if seen[r] || random(k[0], int(k[1]), int(k[2])) != r {
			t.Errorf("random%v = %x is another's, or changes", k, r)
		}
		seen[r] = true
	}
}

const (
	cells  = 256
	sample = cells * 2000
	// For 255 degrees of freedom: exceeded, or fallen short of, once in a million runs.
	chiLow, chiHigh = 160, 374
)

// chiSquare compares counts of equally likely cells with what is expected.
func chiSquare(counts []int, total int) float64 {
	want, sum := float64(total)/float64(len(counts)), 0.0
	for _, n := range counts {
		sum += math.Pow(float64(n)-want, 2) / want
	}
	return sum
}

// Every way in which draws follow each other must look random: along a sequence,
// across choices, across seeds near each other; high bits, low bits and pairs.
func TestRandomIsUniform(t *testing.T) {
	along := map[string]func(i int) uint64{
		"positions": func(i int) uint64 { return random(7, 0, i) },
		"choices":   func(i int) uint64 { return random(7, i, 100) },
		"seeds":     func(i int) uint64 { return random(uint64(i), 0, 100) },
		"far seeds": func(i int) uint64 { return random(uint64(i)<<40, 0, 100) },
		"diagonal":  func(i int) uint64 { return random(uint64(i), i, i) },
	}
	for name, draw := range along {
		high, low, pairs := make([]int, cells), make([]int, cells), make([]int, cells)
		before := draw(sample) >> 60
		for i := range sample {
			r := draw(i)
			high[r>>56]++
			low[r%cells]++
			pairs[before<<4|r>>60]++
			before = r >> 60
		}
		for kind, counts := range map[string][]int{"high bits": high, "low bits": low, "pairs": pairs} {
			if x := chiSquare(counts, sample); x < chiLow || x > chiHigh {
				t.Errorf("%s, %s: chi-square is %.0f, want %d to %d", name, kind, x, chiLow, chiHigh)
			}
		}
	}
}
