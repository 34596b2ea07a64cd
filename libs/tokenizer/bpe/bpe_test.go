package bpe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// alphabets that texts are drawn from: the smaller, the more merges there are.
var alphabets = []string{"a", "ab", "abc é", "的一是在 ab", "é的😀 пx", "가나다的 ab", "▁ab cé"}

func randomText(r *rand.Rand, alphabet string, runes int) string {
	from := []rune(alphabet)
	var b strings.Builder
	for range runes {
		b.WriteRune(from[r.IntN(len(from))])
	}
	return b.String()
}

// learn makes a model of the most frequent pairs of a text, and of some at random, so that
// merges cross characters and come in odd orders.
func learn(r *rand.Rand, text string, merges int, bytewise bool) (*spec.BPE, Texts) {
	m := &spec.BPE{Unk: -1}
	var sequence []uint32
	ids := map[string]uint32{}
	add := func(text string) uint32 {
		id, ok := ids[text]
		if !ok {
			id = uint32(len(m.Vocab))
			ids[text] = id
			m.Vocab = append(m.Vocab, text)
		}
		return id
	}
	if bytewise {
		for b := range 256 {
			add(string([]byte{byte(b)}))
		}
		for i := range len(text) {
			sequence = append(sequence, uint32(text[i]))
		}
	} else {
		for _, c := range text {
			sequence = append(sequence, add(string(c)))
		}
	}
	known := map[[2]uint32]bool{}
	for range merges {
		counts := map[[2]uint32]int{}
		for i := range sequence[1:] {
			counts[[2]uint32{sequence[i], sequence[i+1]}]++
		}
		best, most := [2]uint32{}, 0
		for i := range sequence[1:] {
			pair := [2]uint32{sequence[i], sequence[i+1]}
			n := counts[pair]
			if r.IntN(8) == 0 {
				n += r.IntN(2 * n)
			}
			if n > most && !known[pair] {
				best, most = pair, n
			}
		}
		if most == 0 {
			break
		}
		known[best] = true
		id := add(m.Vocab[best[0]] + m.Vocab[best[1]])
		m.Merges = append(m.Merges, spec.Merge{Left: best[0], Right: best[1], Result: id})
		sequence = apply(sequence, best, id)
	}
	for range []int{0, 3, 100}[r.IntN(3)] {
		i, j := r.IntN(len(m.Merges)), r.IntN(len(m.Merges))
		m.Merges[i], m.Merges[j] = m.Merges[j], m.Merges[i]
	}
	var all Texts
	for _, text := range m.Vocab {
		all.All += text
		all.Ends = append(all.Ends, uint32(len(all.All)))
	}
	return m, all
}

func apply(sequence []uint32, pair [2]uint32, id uint32) (out []uint32) {
	for i := 0; i < len(sequence); i++ {
		if i+1 < len(sequence) && sequence[i] == pair[0] && sequence[i+1] == pair[1] {
			out = append(out, id)
			i++
			continue
		}
		out = append(out, sequence[i])
	}
	return out
}

// naive merges by the definition: the leftmost of the pairs of the lowest rank, one at a time.
func naive(m *spec.BPE, text string, bytewise bool) []uint32 {
	ranks := map[[2]uint32]int{}
	for rank, merge := range m.Merges {
		ranks[[2]uint32{merge.Left, merge.Right}] = rank
	}
	var symbols []uint32
	if bytewise {
		for i := range len(text) {
			symbols = append(symbols, uint32(text[i]))
		}
	} else {
		for _, c := range text {
			if id := slices.Index(m.Vocab, string(c)); id >= 0 {
				symbols = append(symbols, uint32(id))
			}
		}
	}
	for {
		best, at := len(m.Merges), -1
		for i := 0; i+1 < len(symbols); i++ {
			if rank, ok := ranks[[2]uint32{symbols[i], symbols[i+1]}]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols = slices.Replace(symbols, at, at+2, m.Merges[best].Result)
	}
}

func TestEveryPieceMergesAsByTheDefinition(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		alphabet, bytewise := alphabets[r.IntN(len(alphabets))], r.IntN(3) > 0
		m, texts := learn(r, randomText(r, alphabet, 200+r.IntN(800)), 5+r.IntN(150), bytewise)
		model, err := New(m, texts, func(uint32) bool { return false }, bytewise)
		if err != nil {
			t.Fatal(err)
		}
		var s Scratch
		for range 40 {
			n := 1 + r.IntN(30)
			if r.IntN(10) == 0 {
				n = 1 + r.IntN(700)
			}
			text := randomText(r, alphabet, n)
			got, want := model.Append(nil, text, &s), naive(m, text, bytewise)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, bytewise %v: %q\n got %s\nwant %s", seed, bytewise, text, show(m, got), show(m, want))
			}
		}
	}
}

func show(m *spec.BPE, tokens []uint32) string {
	var out []string
	for _, id := range tokens {
		out = append(out, fmt.Sprintf("%q", m.Vocab[id]))
	}
	return strings.Join(out, " ")
}

// Merges that cross the ends of a character before its bytes are one token.
func TestACharacterIsTakenWholeOnlyWhereNothingCrossesItsEnds(t *testing.T) {
	for name, c := range map[string]struct {
		merges [][2]string
		text   string
		want   []string
	}{
		"nothing":        {[][2]string{{"\xe7", "\x9a"}, {"\xe7\x9a", "\x84"}}, " 的a", []string{" ", "的", "a"}},
		"before it":      {[][2]string{{"\xe7", "\x9a"}, {" ", "\xe7\x9a"}, {"\xe7\x9a", "\x84"}}, " 的的", []string{" \xe7\x9a", "\x84", "的"}},
		"behind it":      {[][2]string{{"\x9a", "\x84"}, {"\x9a\x84", "a"}, {"\xe7", "\x9a\x84"}}, "的的a", []string{"的", "\xe7", "\x9a\x84a"}},
		"of its script":  {[][2]string{{"\xe7", "\x9a"}, {"\x84", "\xe7\x9a"}, {"\xe7\x9a", "\x84"}}, "的的 的", []string{"\xe7\x9a", "\x84\xe7\x9a", "\x84", " ", "的"}},
		"with it, early": {[][2]string{{"a", "的"}, {"\xe7", "\x9a"}, {"b", "a"}, {"\xe7\x9a", "\x84"}}, "ba的", []string{"ba", "的"}},
	} {
		m := &spec.BPE{Unk: -1}
		var texts Texts
		ids := map[string]uint32{}
		add := func(text string) uint32 {
			if _, ok := ids[text]; !ok {
				ids[text] = uint32(len(m.Vocab))
				m.Vocab = append(m.Vocab, text)
			}
			return ids[text]
		}
		for b := range 256 {
			add(string([]byte{byte(b)}))
		}
		for _, merge := range c.merges {
			left, right := add(merge[0]), add(merge[1])
			m.Merges = append(m.Merges, spec.Merge{Left: left, Right: right, Result: add(merge[0] + merge[1])})
		}
		for _, text := range m.Vocab {
			texts.All += text
			texts.Ends = append(texts.Ends, uint32(len(texts.All)))
		}
		model, err := New(m, texts, func(uint32) bool { return false }, true)
		if err != nil {
			t.Fatal(err)
		}
		var s Scratch
		var got []string
		for _, id := range model.Append(nil, c.text, &s) {
			got = append(got, m.Vocab[id])
		}
		if naive := naive(m, c.text, true); !slices.Equal(got, c.want) || show(m, naive) != show(m, model.Append(nil, c.text, &s)) {
			t.Errorf("%s: %q gives %q, want %q, by the definition %s", name, c.text, got, c.want, show(m, naive))
		}
	}
}
