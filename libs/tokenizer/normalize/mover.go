package normalize

import "unicode/utf8"

// mover aligns text as the reference's NormalizedString.transform does: from a list of characters,
// each with a count of those it replaces. It thereby is as imprecise as the reference.
type mover struct {
	dst  []byte
	from []uint32
	text string
	// at is the byte of text that the next character replaces.
	at int
}

// move appends r: a change of 1 says that it is new and shares the source of what is before it, 0 that
// it replaces the next character, and -n that it also replaces n after that.
func (m *mover) move(r rune, change int) {
	source := m.at
	if change > 0 {
		source--
	}
	m.dst = utf8.AppendRune(m.dst, r)
	for range utf8.RuneLen(r) {
		m.from = append(m.from, uint32(min(max(source, 0), len(m.text)-1)))
	}
	for ; change <= 0 && m.at < len(m.text); change++ {
		_, n := utf8.DecodeRuneInString(m.text[m.at:])
		m.at += n
	}
}
