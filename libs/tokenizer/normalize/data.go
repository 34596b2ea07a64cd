package normalize

import "sync"

// The properties of a character that the normal forms look at, in a uint16. The low byte is its
// canonical combining class. A character without any bit passes through each form and
// nothing crosses its start.
const (
	classMask = 0xFF

	// The slow bits: the character has to be looked at with its neighbours. In the composed
	// forms it decomposes for good, or may join what is before it.
	slowC  = 1 << 8
	slowKC = 1 << 9
	slowD  = 1 << 10
	slowKD = 1 << 11

	// The inner bits: what the character decomposes to may join, or move before, what
	// is before it.
	innerC  = 1 << 12
	innerKC = 1 << 13
	innerD  = 1 << 14
	innerKD = 1 << 15
)

// decomposedEnd is above every character with a class or a decomposition.
const decomposedEnd = 0x30000

// unicodeData is what the forms need to know of characters, as of Unicode 9, which is the version
// of the reference.
type unicodeData struct {
	properties *table
	// canonical and compatible give where the decomposition of a character stands in pool: its
	// length, then its characters. 0: it has none.
	canonical, compatible *table
	pool                  []rune
	compositions          pairs
}

var loadData = sync.OnceValue(newUnicodeData)

func newUnicodeData() *unicodeData {
	d := &unicodeData{pool: []rune{0}}
	canonical := make([]uint16, tableEnd)
	d.readDecompositions(canonicalTable, canonical)
	compatible := append([]uint16(nil), canonical...)
	d.readDecompositions(compatibilityTable, compatible)
	d.canonical, d.compatible = newTable(canonical), newTable(compatible)

	kept, seconds := make([]bool, decomposedEnd), make([]bool, decomposedEnd)
	for r := newReader(compositionTable); r.more(); {
		c := r.next()
		a, b := rune(r.number()), rune(r.number())
		d.compositions.add(a, b, c)
		kept[c], seconds[b] = true, true
	}
	for r := vowelFirst; r <= vowelLast; r++ {
		seconds[r] = true
	}
	for r := trailFirst; r <= trailLast; r++ {
		seconds[r] = true
	}
	d.properties = newTable(d.newProperties(kept, seconds))
	return d
}

func (d *unicodeData) readDecompositions(from string, to []uint16) {
	for r := newReader(from); r.more(); {
		c := r.next()
		n := r.number()
		to[c] = uint16(len(d.pool))
		d.pool = append(d.pool, rune(n))
		for range n {
			d.pool = append(d.pool, rune(r.number()))
		}
	}
}

// newProperties derives the slow and inner bits. Kept are the composites, which a composed form
// keeps, and seconds the characters that may be the second of a composition.
func (d *unicodeData) newProperties(kept, seconds []bool) []uint16 {
	p := make([]uint16, tableEnd)
	eachClass(classTable, func(lo, hi rune, class int) {
		for r := lo; r <= hi; r++ {
			p[r] = uint16(class)
		}
	})
	inner := func(first rune, decomposed, composed uint16) uint16 {
		switch {
		case p[first]&classMask != 0:
			return decomposed | composed
		case seconds[first]:
			return composed
		}
		return 0
	}
	for c := range rune(decomposedEnd) {
		if isSyllable(c) {
			p[c] |= slowD | slowKD
			continue
		}
		canonical, compatible := d.decomposition(d.canonical, c), d.decomposition(d.compatible, c)
		if canonical != nil {
			p[c] |= slowD | slowKD
		}
		if canonical != nil && !kept[c] || seconds[c] {
			p[c] |= slowC | slowKC
		}
		if d.canonical.of(c) != d.compatible.of(c) {
			p[c] |= slowKC | slowKD
		}
		p[c] |= inner(firstOf(c, canonical), innerD, innerC) | inner(firstOf(c, compatible), innerKD, innerKC)
	}
	return p
}

func firstOf(c rune, decomposition []rune) rune {
	if len(decomposition) > 0 {
		return decomposition[0]
	}
	return c
}

// decomposition returns the decomposition of c; nil: it has none, or is a Hangul syllable.
func (d *unicodeData) decomposition(form *table, c rune) []rune {
	at := int(form.of(c))
	if at == 0 {
		return nil
	}
	return d.pool[at+1 : at+1+int(d.pool[at])]
}

// compose returns the composite of a and b; 0: there is none.
func (d *unicodeData) compose(a, b rune) rune {
	if b < 0x300 {
		return 0
	}
	if c := composeHangul(a, b); c != 0 {
		return c
	}
	return d.compositions.of(a, b)
}
