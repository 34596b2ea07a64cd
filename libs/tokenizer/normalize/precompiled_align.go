package normalize

import "unicode/utf8"

// moved is a character and its change, as a mover takes them.
type moved struct {
	r      rune
	change int
}

// appendAligned counts as the reference does: a character that is added shares the source of the one before it,
// and one that is removed is counted to the one before it, if any.
func (p *precompiled) appendAligned(dst []byte, from []uint32, text string, _ *scratch) ([]byte, []uint32) {
	var all []moved
	copied := 0
	keep := func(part string) {
		for _, r := range part {
			all = append(all, moved{r: r})
		}
	}
	p.each(text, func(start, end int, to string) bool {
		keep(text[copied:start])
		copied = end
		keep(to)
		change := utf8.RuneCountInString(to) - utf8.RuneCountInString(text[start:end])
		for i := range max(change, 0) {
			all[len(all)-1-i].change = 1
		}
		if change < 0 && len(all) > 0 {
			all[len(all)-1].change += change
		}
		return true
	})
	keep(text[copied:])
	m := mover{dst: dst, from: from, text: text}
	for _, c := range all {
		m.move(c.r, c.change)
	}
	return m.dst, m.from
}
