package normalize

import "slices"

// item is a character on its way through decomposition and composition.
type item struct {
	r     rune
	class uint8
	// change counts characters as the reference does: 1 for one that is new, 0 for one that
	// replaces another, -n for one that also replaces n after it.
	change int8
}

// decompose appends the decomposition of a character, with its classes.
func (f *form) decompose(items []item, r rune) []item {
	if isSyllable(r) {
		lead, vowel, trail := decomposeHangul(r)
		items = append(items, item{r: lead}, item{r: vowel, change: 1})
		if trail != 0 {
			items = append(items, item{r: trail, change: 1})
		}
		return items
	}
	d := f.data.decomposition(f.decompositions, r)
	if d == nil {
		return append(items, item{r: r, class: f.classOf(r)})
	}
	for i, c := range d {
		items = append(items, item{r: c, class: f.classOf(c), change: int8(min(i, 1))})
	}
	return items
}

func (f *form) classOf(r rune) uint8 { return uint8(f.data.properties.of(r) & classMask) }

// order sorts each run of characters that are no starters by their class, and leaves those of
// one class in their order.
func order(items []item, s *scratch) {
	for i := 0; i < len(items); i++ {
		if items[i].class == 0 {
			continue
		}
		from := i
		sorted := true
		for i++; i < len(items) && items[i].class != 0; i++ {
			sorted = sorted && items[i-1].class <= items[i].class
		}
		if !sorted {
			sortByClass(items[from:i], s)
		}
	}
}

// shortRun is the length up to which insertion is faster than counting.
const shortRun = 24

func sortByClass(items []item, s *scratch) {
	if len(items) <= shortRun {
		for i := 1; i < len(items); i++ {
			it, j := items[i], i
			for ; j > 0 && items[j-1].class > it.class; j-- {
				items[j] = items[j-1]
			}
			items[j] = it
		}
		return
	}
	// Counting keeps a text of nothing but marks linear.
	var starts [256]int
	for _, it := range items {
		starts[it.class]++
	}
	sum := 0
	for class, n := range starts {
		starts[class], sum = sum, sum+n
	}
	s.sorted = slices.Grow(s.sorted[:0], len(items))[:len(items)]
	for _, it := range items {
		s.sorted[starts[it.class]] = it
		starts[it.class]++
	}
	copy(items, s.sorted)
}

// compose joins what can be joined, in place, and returns what is left.
func (f *form) compose(items []item) []item {
	starter := -1
	// between is the class of the last character after the starter that was not joined; -1: none.
	between := -1
	n := 0
	for _, it := range items {
		if starter >= 0 && between < int(it.class) {
			if c := f.data.compose(items[starter].r, it.r); c != 0 {
				items[starter].r = c
				items[starter].change += it.change - 1
				continue
			}
		}
		if it.class == 0 {
			starter, between = n, -1
		} else {
			between = int(it.class)
		}
		items[n] = it
		n++
	}
	return items[:n]
}
