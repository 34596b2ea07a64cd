package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// checkMergers compares the two ways of merging a piece.
func checkMergers(t *testing.T, tok *Tokenizer, piece string, s *scratch) {
	t.Helper()
	fill := func() {
		s.symbols = s.symbols[:0]
		for i := range len(piece) {
			if id := tok.bpe.bytes[piece[i]]; id != noToken {
				s.symbols = append(s.symbols, id)
			}
		}
	}
	fill()
	if len(s.symbols) == 0 {
		return
	}
	short := slices.Clone(tok.bpe.mergeShort(s))
	fill()
	if long := tok.bpe.mergeLong(nil, s); !slices.Equal(short, long) {
		t.Errorf("%q: scans give %d, the heap %d", piece, short, long)
	}
}

func TestScanAndHeapMergeAlike(t *testing.T) {
	tok := load(t)
	r := rand.New(rand.NewPCG(3, 4))
	var s scratch
	for range 2000 {
		piece := make([]byte, 1+r.IntN(150))
		letters := 1 + r.IntN(26)
		for i := range piece {
			piece[i] = 'a' + byte(r.IntN(letters))
		}
		checkMergers(t, tok, string(piece), &s)
	}
}

// Allocation stands for time here: each heap entry is one pair that was looked at,
// so the test fails on quadratic work, on any machine.
func TestOneLongWordIsNotQuadratic(t *testing.T) {
	tok := load(t)
	const n = 100_000
	for _, letter := range []string{"a", " ", "é", "<"} {
		s := tok.scratch.Get().(*scratch)
		text := strings.Repeat(letter, n)
		if end := tok.split.next(text, 0); end != len(text) {
			t.Errorf("%q: the first piece ends at %d, want %d", letter, end, len(text))
		}
		out := tok.bpe.merge([]sequence.Token(nil), text, s)
		if len(out) == 0 || cap(s.heap) > 8*len(text) {
			t.Errorf("%q: %d tokens, the heap grew to %d entries for %d bytes", letter, len(out), cap(s.heap), len(text))
		}
	}
}
