package split

import (
	"cmp"
	"fmt"
	"slices"
	"unicode"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/chars"
)

const maxRune = unicode.MaxRune

// set is a set of characters: ranges in order that neither touch nor overlap.
type set []chars.Range

func single(r rune) set { return set{{Lo: r, Hi: r}} }

func (s set) single() bool { return len(s) == 1 && s[0].Lo == s[0].Hi }

func property(name string) (set, error) {
	ranges, ok := chars.Ranges(name)
	if !ok {
		return nil, fmt.Errorf("character property %q is unknown or not supported", name)
	}
	return ranges, nil
}

func negated(name string) (set, error) {
	s, err := property(name)
	if err != nil {
		return nil, err
	}
	return s.complement(), nil
}

// word is what \w stands for.
func word(not bool) (set, error) {
	var out set
	for _, name := range []string{"Alphabetic", "M", "Nd", "Pc"} {
		s, err := property(name)
		if err != nil {
			return nil, err
		}
		out = append(out, s...)
	}
	if out = out.normal(); not {
		return out.complement(), nil
	}
	return out, nil
}

// normal sorts and joins ranges.
func (s set) normal() set {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b chars.Range) int { return cmp.Compare(a.Lo, b.Lo) })
	var out set
	for _, r := range s {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

func (s set) complement() set {
	var out set
	next := rune(0)
	for _, r := range s {
		if r.Lo > next {
			out = append(out, chars.Range{Lo: next, Hi: r.Lo - 1})
		}
		next = r.Hi + 1
	}
	if next <= maxRune {
		out = append(out, chars.Range{Lo: next, Hi: maxRune})
	}
	return out
}

// fold adds the characters that differ in case only.
func (s set) fold() set {
	out := slices.Clone(s)
	for _, r := range s {
		for c := r.Lo; c <= r.Hi; c++ {
			for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
				out = append(out, chars.Range{Lo: f, Hi: f})
			}
		}
	}
	return out.normal()
}

func (s set) has(r rune) bool {
	i, found := slices.BinarySearchFunc(s, r, func(x chars.Range, r rune) int { return cmp.Compare(x.Lo, r) })
	return found || i > 0 && r <= s[i-1].Hi
}

func (s set) meets(other set) bool {
	for i, j := 0, 0; i < len(s) && j < len(other); {
		switch {
		case s[i].Hi < other[j].Lo:
			i++
		case other[j].Hi < s[i].Lo:
			j++
		default:
			return true
		}
	}
	return false
}
