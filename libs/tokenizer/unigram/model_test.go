package unigram

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

func TestNewNamesWhatIsWrong(t *testing.T) {
	a := spec.Piece{Text: "a"}
	for want, m := range map[string]*spec.Unigram{
		"model.vocab: it is empty":                              {Unk: -1},
		"model.unk_id: 2 is not in the vocabulary of 1 pieces":  {Pieces: []spec.Piece{a}, Unk: 2},
		"model.unk_id: -2 is not in the vocabulary of 1 pieces": {Pieces: []spec.Piece{a}, Unk: -2},
		`model.vocab[1]: the piece "\xff" is not UTF-8`:         {Pieces: []spec.Piece{a, {Text: "\xff"}}},
		`model.vocab[0]: the score of "x" is NaN`:               {Pieces: []spec.Piece{{Text: "x", Score: math.NaN()}}},
		`model.vocab[0]: the score of "x" is -Inf`:              {Pieces: []spec.Piece{{Text: "x", Score: math.Inf(-1)}}},
		"model.vocab[0]: the piece has 5000 bytes, more than 4096": {
			Pieces: []spec.Piece{{Text: strings.Repeat("x", 5000)}},
		},
	} {
		if _, err := New(m); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAppend(t *testing.T) {
	pieces := []spec.Piece{{Text: "<unk>"}, {Text: "a", Score: -1}, {Text: "b", Score: -1}, {Text: "ab", Score: -2}, {Text: "abc", Score: -9}}
	tests := map[string]struct {
		unk  int
		text string
		want []uint32
	}{
		"nothing":                           {0, "", nil},
		"the longer of equals is the first": {0, "ab", []uint32{3}},
		"a run of unknowns is one":          {0, "axyza", []uint32{1, 0, 1}},
		"no piece for unknowns":             {-1, "axyza", []uint32{1, 1}},
	}
	for name, test := range tests {
		m := mustNew(t, &spec.Unigram{Pieces: pieces, Unk: test.unk})
		if got := m.Append(nil, test.text, &Scratch{}); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q is %v, want %v", name, test.text, got, test.want)
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	v := vocabularies(t)[0]
	m := mustNew(t, v.spec())
	var s Scratch
	text := strings.Repeat("▁Hello▁world▁漢字", 10)
	dst := m.Append(nil, text, &s)
	if n := testing.AllocsPerRun(100, func() { dst = m.Append(dst[:0], text, &s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTrieHasThePieces checks the trie with all its pieces, and with parts of them, which
// are none unless they are in the vocabulary too.
func TestTrieHasThePieces(t *testing.T) {
	for _, v := range vocabularies(t) {
		m := v.spec()
		ids := make(map[string]int32)
		for id, p := range m.Pieces {
			ids[p.Text] = int32(id)
		}
		trie := newTrie(m.Pieces)
		for _, p := range m.Pieces {
			for end := 1; end <= len(p.Text); end++ {
				want, ok := ids[p.Text[:end]]
				if !ok {
					want = -1
				}
				if got := trie.find(p.Text[:end]); got != want {
					t.Fatalf("%s: %q is %d, want %d", v.Name, p.Text[:end], got, want)
				}
			}
		}
		if trie.find("") != -1 {
			t.Error("the empty text is a piece")
		}
	}
}

func benchmarkText(b *testing.B, pieces []string) {
	v := vocabularies(b)[0]
	m := mustNew(b, v.spec())
	var s Scratch
	var dst []uint32
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range pieces {
			dst = m.Append(dst[:0], p, &s)
		}
	}
}

const english = "▁The▁quick▁brown▁fox▁jumps▁over▁the▁lazy▁dog.▁Unigram▁models▁choose▁the▁most▁probable▁segmentation,▁of▁all▁that▁there▁are."

func BenchmarkWords(b *testing.B) {
	var words []string
	for word := range strings.SplitAfterSeq(english, "▁") {
		words = append(words, "▁"+strings.TrimSuffix(word, "▁"))
	}
	benchmarkText(b, words)
}

func BenchmarkLongText(b *testing.B) { benchmarkText(b, []string{strings.Repeat(english, 1000)}) }

func BenchmarkOneLetter(b *testing.B) {
	benchmarkText(b, []string{strings.Repeat("a", 100_000)})
}

func BenchmarkUnknown(b *testing.B) { benchmarkText(b, []string{strings.Repeat("𐎀", 25_000)}) }

func BenchmarkNew(b *testing.B) {
	v := vocabularies(b)[0]
	m := v.spec()
	for b.Loop() {
		mustNew(b, m)
	}
}
