package unigram

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// vocabulary is an element of testdata/vocabs.json.gz, which gen/vocabs.mjs writes.
type vocabulary struct {
	Name         string
	Unk          int
	ByteFallback bool
	// Alphabet is what texts are made of.
	Alphabet []string
	Vocab    [][2]any
}

func (v *vocabulary) spec() *spec.Unigram {
	m := &spec.Unigram{Unk: v.Unk, ByteFallback: v.ByteFallback}
	for _, p := range v.Vocab {
		m.Pieces = append(m.Pieces, spec.Piece{Text: p[0].(string), Score: p[1].(float64)})
	}
	return m
}

func vocabularies(t testing.TB) []vocabulary {
	t.Helper()
	f, err := os.Open("testdata/vocabs.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []vocabulary
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// random is a linear congruential generator; gen/random.mjs has the same.
type random uint64

func (r *random) below(n int) int {
	*r = *r*6364136223846793005 + 1442695040888963407
	return int(uint64(*r) >> 33 % uint64(n))
}

// text joins some strings of an alphabet.
func (r *random) text(alphabet []string) string {
	var out strings.Builder
	for n := r.below(30); n >= 0; n-- {
		out.WriteString(alphabet[r.below(len(alphabet))])
	}
	return out.String()
}

func mustNew(t testing.TB, m *spec.Unigram) *Model {
	t.Helper()
	u, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestIDsAreThoseOfTheReference compares with hashes that gen/answers.mjs recorded.
func TestIDsAreThoseOfTheReference(t *testing.T) {
	data, err := os.ReadFile("testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	all := vocabularies(t)
	if len(all) != len(lines) {
		t.Fatalf("%d vocabularies, %d answers", len(all), len(lines))
	}
	for i, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			hashes := strings.Fields(lines[i])
			if hashes[0] != v.Name {
				t.Fatalf("the answers are those of %s", hashes[0])
			}
			checkAnswers(t, &v, hashes[1:])
		})
	}
}

func checkAnswers(t *testing.T, v *vocabulary, hashes []string) {
	const textsPerHash = 1000
	m, r := mustNew(t, v.spec()), random(1)
	var s Scratch
	for i, want := range hashes {
		var lines strings.Builder
		for range textsPerHash {
			ids := m.Append(nil, r.text(v.Alphabet), &s)
			lines.WriteString(strings.Trim(fmt.Sprint(ids), "[]") + "\n")
		}
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(lines.String())))[:8]; got != want {
			t.Errorf("block %d: %s, want %s", i, got, want)
		}
	}
}
