package normalize

import (
	"sync"
	"unicode/utf8"
)

// The classes of characters for grapheme clusters (Unicode Standard Annex 29), of Unicode 16. The
// generated table has these numbers.
const (
	breakAny = iota
	breakCR
	breakLF
	breakControl
	breakExtend
	breakZWJ
	breakSpacingMark
	breakPrepend
	breakL
	breakV
	breakT
	breakLV
	breakLVT
	_ // regional indicators
	breakPictographic
	breakConsonant
)

const (
	breakMask = 0x0F
	// conjunctExtend and conjunctLinker may stand between consonants that a linker joins.
	conjunctExtend = 0x10
	conjunctLinker = 0x20
)

var graphemeClasses = sync.OnceValue(func() *table {
	values := make([]uint16, tableEnd)
	set := func(shift int) func(lo, hi rune, class int) {
		return func(lo, hi rune, class int) {
			for r := lo; r <= hi; r++ {
				values[r] |= uint16(class) << shift
			}
		}
	}
	eachClass(graphemeTable, set(0))
	eachClass(conjunctTable, set(4))
	return newTable(values)
})

// segmenter finds the ends of grapheme clusters, from the start of a text on. It breaks between
// regional indicators (GB12, GB13 do not always), which makes no difference to its user: two are longer
// than what it looks at as a whole.
type segmenter struct {
	classes *table
	// emoji: a pictograph is before, and only what extends it since.
	emoji bool
	// consonant: a consonant is before, and only what may join since; linked: with a linker.
	consonant, linked bool
}

func (g *segmenter) class(text string, i int) (uint16, int) {
	if b := text[i]; b < utf8.RuneSelf {
		return g.classes.of(rune(b)), 1
	}
	return g.classes.at(text, i)
}

// next returns the end of the grapheme that starts at i, and that of its first character.
func (g *segmenter) next(text string, i int) (end, first int) {
	before, n := g.class(text, i)
	g.pass(before)
	i += n
	first = i
	for i < len(text) {
		after, n := g.class(text, i)
		if g.breaks(before&breakMask, after&breakMask) {
			break
		}
		g.pass(after)
		before = after
		i += n
	}
	return i, first
}

// pass notes a character that is now before.
func (g *segmenter) pass(class uint16) {
	kind := class & breakMask
	switch {
	case kind == breakConsonant:
		g.consonant, g.linked = true, false
	case class&conjunctLinker != 0:
		g.linked = g.consonant
	case class&conjunctExtend == 0:
		g.consonant, g.linked = false, false
	}
	if kind == breakPictographic {
		g.emoji = true
	} else if kind != breakExtend && kind != breakZWJ {
		g.emoji = false
	}
}

// breaks says whether a grapheme ends between characters of two classes. The comments name the rules.
func (g *segmenter) breaks(before, after uint16) bool {
	switch {
	case before == breakAny && after == breakAny:
		return true
	case before == breakCR && after == breakLF: // GB3
		return false
	case breakCR <= before && before <= breakControl || breakCR <= after && after <= breakControl: // GB4, GB5
		return true
	case before == breakL && (after == breakL || after == breakV || after == breakLV || after == breakLVT): // GB6
		return false
	case (before == breakLV || before == breakV) && (after == breakV || after == breakT): // GB7
		return false
	case (before == breakLVT || before == breakT) && after == breakT: // GB8
		return false
	case after == breakExtend || after == breakZWJ || after == breakSpacingMark || before == breakPrepend: // GB9, GB9a, GB9b
		return false
	case after == breakConsonant: // GB9c
		return !g.linked
	case before == breakZWJ && after == breakPictographic: // GB11
		return !g.emoji
	}
	return true
}
