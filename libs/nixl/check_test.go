package nixl

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// marked is the check by the definition: it marks each byte of a small region.
func marked(op Op, copies []Copy, local, remote int) bool {
	seen := make(map[int]bool)
	for _, c := range copies {
		if c.Local.Bytes != c.Remote.Bytes || c.Local.Bytes < 0 || c.Local.Offset < 0 || c.Remote.Offset < 0 ||
			c.Local.Offset+c.Local.Bytes > local || c.Remote.Offset+c.Remote.Bytes > remote {
			return false
		}
		d := c.Remote
		if op == Read {
			d = c.Local
		}
		for i := d.Offset; i < d.Offset+d.Bytes; i++ {
			if seen[i] {
				return false
			}
			seen[i] = true
		}
	}
	return true
}

func TestCheckAgreesWithItsDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	valid := 0
	for range 200_000 {
		op := Op(random.IntN(2))
		copies := make([]Copy, random.IntN(4))
		for i := range copies {
			n := random.IntN(6) - 1
			copies[i] = Copy{Local: block.Span{Offset: random.IntN(20) - 1, Bytes: n}, Remote: block.Span{Offset: random.IntN(24) - 1, Bytes: n}}
			if random.IntN(20) == 0 {
				copies[i].Local.Bytes++
			}
		}
		want := marked(op, copies, 18, 22)
		if want {
			valid++
		}
		err := CheckCopies(op, copies, 18, 22)
		if (err == nil) != want || (err != nil && !errors.Is(err, ErrDescriptor)) {
			t.Fatalf("%s %+v: got %v, want valid = %t", op, copies, err, want)
		}
	}
	if valid < 20_000 {
		t.Fatalf("only %d cases were valid", valid)
	}
}

func BenchmarkCheckCopies(b *testing.B) {
	ascending := make([]Copy, 4096)
	for i := range ascending {
		s := block.Span{Offset: i * 1024, Bytes: 1024}
		ascending[i] = Copy{Local: s, Remote: s}
	}
	shuffled := make([]Copy, len(ascending))
	for i, j := range rand.New(rand.NewPCG(1, 2)).Perm(len(ascending)) {
		shuffled[i] = ascending[j]
	}
	for name, copies := range map[string][]Copy{"ascending": ascending, "shuffled": shuffled} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := CheckCopies(Write, copies, 4<<20, 4<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestSumsThatOverflowAreOutside(t *testing.T) {
	for _, s := range []block.Span{
		{Offset: 1, Bytes: math.MaxInt}, {Offset: math.MaxInt, Bytes: 1}, {Offset: math.MinInt, Bytes: 0}, {Offset: math.MaxInt, Bytes: math.MaxInt},
	} {
		if err := CheckCopies(Write, []Copy{{Local: s, Remote: s}}, 64, 64); !errors.Is(err, ErrDescriptor) {
			t.Errorf("%+v: got %v", s, err)
		}
	}
}
