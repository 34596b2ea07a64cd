package corpus

import (
	"sort"
	"strings"
)

// words are words and how often they are.
type words struct {
	words []string
	ends  []int // the sum of the frequencies up to each
}

func (w *words) add(word string, frequency int) {
	end := frequency
	if n := len(w.ends); n > 0 {
		end += w.ends[n-1]
	}
	w.words, w.ends = append(w.words, word), append(w.ends, end)
}

// text joins words by chance to clauses and sentences.
func (w *words) text(size int) string {
	r := NewRandom(1)
	var out strings.Builder
	out.Grow(size + 64)
	for out.Len() < size {
		n := r.Below(w.ends[len(w.ends)-1])
		out.WriteString(w.words[sort.SearchInts(w.ends, n+1)])
		switch r.Below(40) {
		case 0, 1, 2:
			out.WriteString("，")
		case 3:
			out.WriteString("。")
		case 4:
			out.WriteString("。\n")
		}
	}
	return Cut(out.String(), size)
}

// MadeUp is text of a number of made-up words, each as often as any other: what a cache of words is worst at.
func MadeUp(words, size int) string {
	const vowels, consonants = "aeiou", "bcdfghjklmnprstvwz"
	r := NewRandom(2)
	all := make([]string, words)
	for i := range all {
		var word []byte
		for range 2 + r.Below(4) {
			word = append(word, consonants[r.Below(len(consonants))], vowels[r.Below(len(vowels))])
		}
		if r.Below(3) == 0 {
			word = append(word, consonants[r.Below(len(consonants))])
		}
		all[i] = string(word)
	}
	var out strings.Builder
	out.Grow(size + 64)
	for out.Len() < size {
		out.WriteString(all[r.Below(words)])
		out.WriteByte(' ')
	}
	return out.String()[:size]
}

// OneLetter is one letter all over: no place to cut it at.
func OneLetter(size int) string { return strings.Repeat("a", size) }

// Emoji is one emoji all over, of four bytes.
func Emoji(size int) string { return strings.Repeat("😀", size/4) }

// Spaces is spaces.
func Spaces(size int) string { return strings.Repeat(" ", size) }

// RandomBytes is noise, most of it no UTF-8.
func RandomBytes(size int) string {
	r := NewRandom(3)
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(r.Below(256))
	}
	return string(out)
}
