package chars

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestSetsAreThoseOfTheReference compares each set with what the reference answered for every
// code point, as gen/answers.mjs records it.
func TestSetsAreThoseOfTheReference(t *testing.T) {
	rust := map[string]func() []Range{
		"Numeric": Numeric, "WhiteSpace": WhiteSpace, "Punctuation": Punctuation, "Word": Word,
	}
	data, err := os.ReadFile("testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		var ranges []Range
		if property, ok := strings.CutPrefix(name, "regex:"); ok {
			if ranges, ok = Ranges(property); !ok {
				t.Errorf("%s is unknown", property)
			}
		} else {
			ranges = rust[name]()
		}
		if got := digest(ranges); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// digest leaves the surrogates out, which the reference cannot be asked about.
func digest(ranges []Range) string {
	var text strings.Builder
	size := 0
	write := func(lo, hi rune) {
		if lo <= hi {
			fmt.Fprintf(&text, "%x-%x\n", lo, hi)
			size += int(hi - lo + 1)
		}
	}
	for _, r := range ranges {
		if r.Lo <= 0xDFFF && r.Hi >= 0xD800 {
			write(r.Lo, 0xD7FF)
			write(0xE000, r.Hi)
			continue
		}
		write(r.Lo, r.Hi)
	}
	return fmt.Sprintf("%d %x", size, sha256.Sum256([]byte(text.String())))
}

func TestRangesAreSortedDisjointAndMerged(t *testing.T) {
	for name := range names {
		ranges, ok := Ranges(name)
		if !ok || len(ranges) == 0 {
			t.Fatalf("%s has no characters", name)
		}
		for i, r := range ranges {
			if r.Lo > r.Hi || i > 0 && ranges[i-1].Hi+1 >= r.Lo {
				t.Errorf("%s: range %d is %v after %v", name, i, r, ranges[max(i-1, 0)])
			}
		}
	}
}

func TestNamesIgnoreCaseAndSeparators(t *testing.T) {
	want, _ := Ranges("Lu")
	for _, name := range []string{"lu", "LU", "Uppercase_Letter", "uppercase letter", "Uppercase-Letter"} {
		if got, ok := Ranges(name); !ok || !slices.Equal(got, want) {
			t.Errorf("%s is not Lu", name)
		}
	}
	for _, name := range []string{"", "X", "Klingon", "InGreek", "^L"} {
		if _, ok := Ranges(name); ok {
			t.Errorf("%q is known", name)
		}
	}
}

func TestAlphabeticHasWhatGoKnows(t *testing.T) {
	set := Alphabetic()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		old := unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) || unicode.Is(unicode.Other_Alphabetic, r)
		if old && !Contains(set, r) {
			t.Errorf("%U is not alphabetic", r)
		}
	}
}

func TestContains(t *testing.T) {
	set := []Range{{'b', 'd'}, {'x', 'x'}}
	for r := 'a'; r <= 'z'; r++ {
		if got, want := Contains(set, r), strings.ContainsRune("bcdx", r); got != want {
			t.Errorf("Contains(%c) = %v", r, got)
		}
	}
	if Contains(nil, 'a') {
		t.Error("nothing contains a")
	}
}
