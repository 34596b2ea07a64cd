package prefix_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

func tokens(n int) []sequence.Token {
	ts := make([]sequence.Token, n)
	for i := range ts {
		ts[i] = sequence.Token(uint32(i) * 2654435761)
	}
	return ts
}

// reference is the definition: XXH3-64 over parent ‖ little-endian token ids.
func reference(parent block.Hash, ts []sequence.Token) block.Hash {
	data := binary.LittleEndian.AppendUint64(nil, uint64(parent))
	for _, t := range ts {
		data = binary.LittleEndian.AppendUint32(data, t)
	}
	return block.Hash(xxh3.Hash(data))
}

func TestNextFollowsTheDefinitionAtEverySize(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 64, 127, 128, 129, 256, 1000} {
		ts := tokens(n)
		if got, want := prefix.Next(42, ts), reference(42, ts); got != want {
			t.Errorf("Next of %d tokens = %x, want %x", n, got, want)
		}
	}
}

// Hashes are stored and exchanged between versions of the program: they are fixed.
func TestHashesNeverChange(t *testing.T) {
	root := prefix.Root("model", "lora", "salt")
	if got, want := root, block.Hash(goldenRoot); got != want {
		t.Errorf("Root = %#x, want %#x", got, want)
	}
	if got, want := prefix.Next(root, tokens(64)), block.Hash(goldenNext); got != want {
		t.Errorf("Next = %#x, want %#x", got, want)
	}
}

func TestRootSeparatesNamespaces(t *testing.T) {
	seen := map[block.Hash][3]string{}
	for _, n := range [][3]string{
		{"ab", "", ""}, {"a", "b", ""}, {"", "ab", ""}, {"a", "", "b"}, {"", "a", "b"}, {"", "", "ab"}, {"", "", ""},
	} {
		h := prefix.Root(n[0], n[1], n[2])
		if other, ok := seen[h]; ok {
			t.Errorf("%q and %q have the same root", n, other)
		}
		seen[h] = n
	}
}

func TestChainHashesFullBlocksOnly(t *testing.T) {
	for _, c := range []struct{ tokens, size, want int }{
		{0, 16, 0}, {15, 16, 0}, {16, 16, 1}, {47, 16, 2}, {48, 16, 3}, {130, 32, 4}, {130, 24, 5}, {300, 130, 2},
	} {
		ts := tokens(c.tokens)
		got := prefix.Chain([]block.Hash{7}, 1, ts, c.size)
		if len(got) != c.want+1 || got[0] != 7 {
			t.Fatalf("Chain of %d tokens by %d = %x, want %d hashes after the 7", c.tokens, c.size, got, c.want)
		}
		parent := block.Hash(1)
		for i, h := range got[1:] {
			parent = reference(parent, ts[i*c.size:(i+1)*c.size])
			if h != parent {
				t.Errorf("Chain of %d tokens by %d: hash %d is %x, want %x", c.tokens, c.size, i, h, parent)
			}
		}
	}
}

func TestHashingDoesNotAllocate(t *testing.T) {
	ts, dst := tokens(1024), make([]block.Hash, 0, 64)
	for _, size := range []int{16, 128, 256} {
		if n := testing.AllocsPerRun(20, func() { dst = prefix.Chain(dst[:0], 1, ts, size) }); n != 0 {
			t.Errorf("Chain by %d allocates %v times", size, n)
		}
		if n := testing.AllocsPerRun(20, func() { prefix.Next(1, ts[:size]) }); n != 0 {
			t.Errorf("Next of %d tokens allocates %v times", size, n)
		}
	}
}

func BenchmarkChain(b *testing.B) {
	const n = 100_000
	ts, dst := tokens(n), make([]block.Hash, 0, n)
	for _, size := range []int{16, 32, 64, 128} {
		b.Run(fmt.Sprintf("block%d", size), func(b *testing.B) {
			for b.Loop() {
				dst = prefix.Chain(dst[:0], 1, ts, size)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// What the same bytes cost where no block waits for its parent.
func BenchmarkPlain(b *testing.B) {
	const n = 100_000
	for _, size := range []int{16, 32, 64, 128} {
		b.Run(fmt.Sprintf("block%d", size), func(b *testing.B) {
			data := make([]byte, n/size*(8+4*size))
			for b.Loop() {
				for d := data; len(d) > 0; d = d[8+4*size:] {
					xxh3.Hash(d[:8+4*size])
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// Computed with the reference implementation (Python xxhash), too.
const goldenRoot, goldenNext = 0x9efbe48932c47f9d, 0x1f568ec267e3e183
