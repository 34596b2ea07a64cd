package split

import "unicode/utf8"

// borders tells for each pair of neighbouring classes whether a text may be cut between
// them, and the halves split apart, with the same pieces.
type borders struct {
	of    []border
	width int // classes
}

type border uint8

const (
	unclear border = iota
	through        // no match touches either character: a cut moves no border
	always         // every match that holds the first character ends before the second
)

// borders looks at every state, so what it says holds wherever a match has begun.
func (a *automaton) borders() borders {
	b := borders{of: make([]border, a.end*a.end), width: a.end}
	states := len(a.next) >> a.shift
	for x := range a.end {
		for y := range a.end {
			b.of[x*a.end+y] = a.border(states, x, y)
		}
	}
	return b
}

func (a *automaton) border(states, x, y int) border {
	touched := false
	sure := a.next[start<<a.shift|x]>>1 != 0
	for s := start; s < states; s++ {
		after := int(a.next[s<<a.shift|x] >> 1)
		touched = touched || after != 0 || a.next[s<<a.shift|y]>>1 != 0
		if after == 0 {
			continue
		}
		then := a.next[after|y]
		if then != ends || a.next[after|a.end]&ends == 0 {
			sure = false
		}
	}
	switch {
	case !touched:
		return through
	case sure:
		return always
	}
	return unclear
}

// asciiBorders has a bit for each pair of ASCII characters between which texts may be cut.
type asciiBorders [utf8.RuneSelf][utf8.RuneSelf / 64]uint64

func (s *Splitter) noteBorders() {
	s.ascii = asciiBorders{}
	s.cuts = false
	for x := range rune(utf8.RuneSelf) {
		for y := range rune(utf8.RuneSelf) {
			if s.border(x, y) {
				s.ascii[x][y>>6] |= 1 << (y & 63)
				s.cuts = true
			}
		}
	}
}

// Cuts reports whether there are places where texts may be cut.
func (s *Splitter) Cuts() bool { return s.cuts }

// Border returns the first place from a byte on, and behind its first character, at which a
// text may be cut and its halves split apart with the same pieces; -1 if there is none. Text
// is valid UTF-8.
func (s *Splitter) Border(text string, from int) int {
	if !s.cuts {
		return -1
	}
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	for at := max(from, 1); at < len(text); at++ {
		x, y := text[at-1], text[at]
		if x|y < utf8.RuneSelf {
			if s.ascii[x][y>>6]>>(y&63)&1 != 0 {
				return at
			}
			continue
		}
		if !utf8.RuneStart(y) {
			continue
		}
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at:])
		if s.border(before, after) {
			return at
		}
	}
	return -1
}

// border reports whether the characters are always in two pieces, and no level splits
// otherwise for a cut between them.
func (s *Splitter) border(before, after rune) bool {
	found := false
	for i := range s.levels {
		a, b := s.levels[i].a, &s.borders[i]
		switch b.of[int(a.class(before))*b.width+int(a.class(after))] {
		case unclear:
			return false
		case always:
			if s.levels[i].behavior != isolated {
				return false // a piece may be joined to the one before
			}
			found = true
		}
	}
	return found
}
