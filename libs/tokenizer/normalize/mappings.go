package normalize

import (
	"slices"
	"sync"
	"unicode/utf8"
)

// The mappings have no state, so all chains share them.
var (
	newNmt          = sync.OnceValue(buildNmt)
	newLowercase    = sync.OnceValue(buildLowercase)
	newStripAccents = sync.OnceValue(buildStripAccents)
)

const (
	nmtRemove = 1
	nmtSpace  = 2
)

// buildNmt makes the cleaning of sentencepiece's NMT rules: control characters go, and some others
// become spaces.
func buildNmt() *mapping {
	values := make([]uint16, tableEnd)
	for _, r := range [][2]rune{{0x01, 0x08}, {0x0B, 0x0B}, {0x0E, 0x1F}, {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}} {
		for c := r[0]; c <= r[1]; c++ {
			values[c] = nmtRemove
		}
	}
	for _, c := range []rune{
		0x09, 0x0A, 0x0C, 0x0D, 0x1680, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD,
	} {
		values[c] = nmtSpace
	}
	return newMapping(values, func(dst []byte, _ rune, value uint16) []byte {
		if value == nmtSpace {
			return append(dst, ' ')
		}
		return dst
	})
}

// buildStripAccents removes the combining marks.
func buildStripAccents() *mapping {
	values := make([]uint16, tableEnd)
	eachClass(markTable, func(lo, hi rune, _ int) {
		for c := lo; c <= hi; c++ {
			values[c] = 1
		}
	})
	return newMapping(values, func(dst []byte, _ rune, _ uint16) []byte { return dst })
}

// buildLowercase makes the lower case of each character on its own: a sigma at the end of a word is as
// any other.
func buildLowercase() *mapping {
	values := make([]uint16, tableEnd)
	// A value is one more than the index of the change that it stands for.
	var changes []rune
	for r := newReader(lowerTable); r.more(); {
		c := r.next()
		n := r.number()
		change := rune(n >> 1)
		if n&1 != 0 {
			change = -change
		}
		at := slices.Index(changes, change)
		if at < 0 {
			at = len(changes)
			changes = append(changes, change)
		}
		values[c] = uint16(at + 1)
	}
	// The one character whose lower case is two.
	const dottedI = 0x130
	return newMapping(values, func(dst []byte, r rune, value uint16) []byte {
		if r == dottedI {
			return append(dst, "i\u0307"...)
		}
		return utf8.AppendRune(dst, r+changes[value-1])
	})
}
