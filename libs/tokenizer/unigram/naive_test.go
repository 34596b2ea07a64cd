package unigram

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// naive encodes by trying all pieces at all places.
func naive(m *spec.Unigram, text string) []uint32 {
	ids := make(map[string]int)
	least := math.Inf(1)
	for id, p := range m.Pieces {
		ids[p.Text] = id
		least = min(least, p.Score)
	}
	type way struct {
		score   float64
		from    int
		id      int
		reached bool
	}
	ways := make([]way, len(text)+1)
	offer := func(to, from, id int, score float64) {
		if score += ways[from].score; !ways[to].reached || score > ways[to].score {
			ways[to] = way{score: score, from: from, id: id, reached: true}
		}
	}
	for from, r := range text {
		width := utf8.RuneLen(r)
		for to := from + 1; to <= len(text); to++ {
			if id, ok := ids[text[from:to]]; ok {
				offer(to, from, id, m.Pieces[id].Score)
			}
		}
		if _, ok := ids[text[from:from+width]]; !ok {
			offer(from+width, from, m.Unk, least-10)
		}
	}
	// From the end on, with runs of unknown pieces joined.
	var out []uint32
	for to := len(text); to > 0; {
		from := ways[to].from
		if ways[to].id != m.Unk {
			out = append(out, uint32(ways[to].id))
			to = from
			continue
		}
		for from > 0 && ways[from].id == m.Unk {
			from = ways[from].from
		}
		part := naiveUnknown(m, ids, text[from:to])
		slices.Reverse(part)
		out = append(out, part...)
		to = from
	}
	slices.Reverse(out)
	return out
}

func naiveUnknown(m *spec.Unigram, ids map[string]int, run string) []uint32 {
	if id, ok := ids[run]; ok {
		return []uint32{uint32(id)}
	}
	var out []uint32
	for i := range len(run) {
		if id, ok := ids[fmt.Sprintf("<0x%02X>", run[i])]; ok && m.ByteFallback {
			out = append(out, uint32(id))
		}
	}
	if len(out) == len(run) {
		return out
	}
	if m.Unk < 0 {
		return nil
	}
	return []uint32{uint32(m.Unk)}
}

func TestSearchIsThatOfTheNaiveOne(t *testing.T) {
	for _, v := range vocabularies(t) {
		m := v.spec()
		for _, unk := range []int{v.Unk, -1} {
			m.Unk = unk
			u, r := mustNew(t, m), random(9)
			var s Scratch
			for range 200 {
				text := r.text(v.Alphabet)
				if got, want := u.Append(nil, text, &s), naive(m, text); !slices.Equal(got, want) {
					t.Fatalf("%s: %q is %v, want %v", v.Name, text, got, want)
				}
			}
		}
	}
}

// fuzzVocabulary makes a vocabulary of bytes: lines of text with a score for each.
func fuzzVocabulary(data string, scores []byte, unk int, bytes bool) *spec.Unigram {
	m := &spec.Unigram{Unk: unk, ByteFallback: bytes}
	for i, text := range strings.Split(data, "\n") {
		score := float64(-i)
		if i*2+2 <= len(scores) {
			score = float64(int16(binary.LittleEndian.Uint16(scores[i*2:]))) / 64
		}
		m.Pieces = append(m.Pieces, spec.Piece{Text: text, Score: score})
	}
	return m
}

func FuzzAppend(f *testing.F) {
	f.Add("<unk>\na\nab\nb\nbc\n\na", []byte{1, 0, 200, 255, 100, 255}, 0, false, "abcab")
	f.Add("<unk>\n<0xC3>\n<0xA9>\n<0x00>", []byte{}, -1, true, "é\x00x")
	f.Add("\xff", []byte{}, 0, false, "")
	f.Fuzz(func(t *testing.T, data string, scores []byte, unk int, bytes bool, text string) {
		m := fuzzVocabulary(data, scores, unk, bytes)
		u, err := New(m)
		if err != nil || len(text) > 500 {
			return
		}
		got := u.Append([]uint32{7}, text, &Scratch{})
		if !utf8.ValidString(text) {
			return
		}
		if want := naive(m, text); !slices.Equal(got[1:], want) {
			t.Fatalf("%q is %v, want %v", text, got[1:], want)
		}
	})
}
