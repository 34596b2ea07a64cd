// Package chars has the Unicode properties of characters as the reference (Hugging Face
// tokenizers 0.22.2) knows them, which is not as Go's unicode package (Unicode 15) does. The
// reference holds several versions: its regular expressions know Unicode 16, the character
// methods of Rust's standard library Unicode 17, and its punctuation is that of an older one.
//
// The package gives sets as ranges, to build faster forms from. It starts no goroutine.
package chars

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
)

// Range is the characters Lo to Hi, both included.
type Range struct{ Lo, Hi rune }

// Ranges returns the characters with a property as regular expressions (\p{…}) know it, sorted,
// disjoint and merged. A property is a general category or a group of them by short or long
// name ("Lu", "Uppercase_Letter", "L", "Letter", "LC"), "White_Space" (also \s), "Word" (also \w),
// "Alphabetic", or one of some scripts ("Han"); \d is "Nd". As in the regular expressions, case,
// spaces, "-" and "_" in it are ignored. The surrogates "Cs" are in "C", though no text has them. It
// is false for a property that is unknown.
func Ranges(property string) ([]Range, bool) {
	name, ok := names[fold(property)]
	if !ok {
		return nil, false
	}
	if parts, ok := groups[name]; ok {
		var all []Range
		for _, p := range parts {
			all = append(all, decode(regexTables[p])...)
		}
		return merge(all), true
	}
	return decode(regexTables[name]), true
}

// Numeric returns the characters of Rust's char::is_numeric, which the step Digits looks at.
func Numeric() []Range { return decode(rustTables["N"]) }

// Alphabetic returns the characters of Rust's char::is_alphabetic.
func Alphabetic() []Range { return decode(rustTables["Alphabetic"]) }

// WhiteSpace returns the characters of Rust's char::is_whitespace, which the steps Strip and
// WhitespaceSplit look at.
func WhiteSpace() []Range { return decode(rustTables["White_Space"]) }

// Punctuation returns the characters that the steps Punctuation and BertPreTokenizer isolate.
func Punctuation() []Range { return decode(rustTables["Punctuation"]) }

// Word returns the characters of \w in the step Whitespace and around a single-word added token, which
// are matched by another engine than Split's.
func Word() []Range { return decode(rustTables["Word"]) }

// Contains reports whether r is in the ranges, which are sorted and disjoint, by binary search.
func Contains(ranges []Range, r rune) bool {
	i, found := slices.BinarySearchFunc(ranges, r, func(in Range, r rune) int { return int(in.Lo - r) })
	return found || i > 0 && r <= ranges[i-1].Hi
}

// decode reads a generated table.
func decode(table string) []Range {
	data, err := base64.RawStdEncoding.DecodeString(table)
	if err != nil {
		panic("chars: a generated table is broken: " + err.Error())
	}
	ranges := make([]Range, 0, len(data)/2)
	var next rune
	for len(data) > 0 {
		gap, n := binary.Uvarint(data)
		more, m := binary.Uvarint(data[n:])
		data = data[n+m:]
		lo := next + rune(gap)
		next = lo + rune(more) + 1
		ranges = append(ranges, Range{lo, next - 1})
	}
	return ranges
}

// merge sorts disjoint ranges and joins neighbours.
func merge(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return int(a.Lo - b.Lo) })
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out); n > 0 && out[n-1].Hi+1 == r.Lo {
			out[n-1].Hi = r.Hi
			continue
		}
		out = append(out, r)
	}
	return out
}

// fold gives the names of a property that are equal one form.
func fold(property string) string {
	return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(property))
}
