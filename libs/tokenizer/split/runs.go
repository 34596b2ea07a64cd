package split

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// runs speeds an automaton up on ASCII words, which most text is made of: a table takes the
// first two characters in one step, and where a state stays the same over letters, eight are
// looked at at once.
type runs struct {
	// classes has the class of each ASCII byte, and that of no character for others.
	classes [256]uint8
	// two has the transition from the first state over two classes.
	two [1 << (2 * twoBits)]opening
	// letters says of each state, by its number, which letters it stays the same over.
	letters []letters
}

// twoBits is how many bits of a class count in two. Patterns with more classes do without it.
const twoBits = 5

// opening is where two characters lead.
type opening struct {
	row     uint16 // the row after both; 0: there is no way on, or it is not known
	letters letters
	found   bool // a match ends between them
}

type letters uint8

const (
	noLetters letters = iota
	lower
	lowerAndUpper
)

func (r *runs) build(a *automaton) {
	r.letters = make([]letters, len(a.next)>>a.shift)
	for state := start; state < len(r.letters); state++ {
		if a.stays(state, 'a', 'z') {
			r.letters[state] = lower
			if a.stays(state, 'A', 'Z') {
				r.letters[state] = lowerAndUpper
			}
		}
	}
	none := uint8(1<<twoBits - 1)
	for b := range r.classes {
		r.classes[b] = none
		if b < utf8.RuneSelf && a.ascii[b] < none {
			r.classes[b] = a.ascii[b]
		}
	}
	for x := range min(int(none), a.end) {
		first := a.next[start<<a.shift|x] >> 1
		if first == 0 {
			continue
		}
		for y := range min(int(none), a.end) {
			t := a.next[first|transition(y)]
			if row := t >> 1; row <= 1<<16-1 {
				r.two[x<<twoBits|y] = opening{row: uint16(row), letters: r.letters[row>>a.shift], found: t&ends != 0}
			}
		}
	}
}

// stays reports whether a state stays the same over a range of ASCII characters.
func (a *automaton) stays(state int, from, to byte) bool {
	for b := from; b <= to; b++ {
		if a.next[state<<a.shift|int(a.ascii[b])]>>1 != transition(state)<<a.shift {
			return false
		}
	}
	return true
}

// fill writes the ends of the pieces that start from a byte on and before a limit, for as long
// as each is a match, and returns how many there are and the end of the last.
func (a *automaton) fill(text string, at, limit int, out []uint32) (n, end int) {
	r, next := &a.runs, a.next
	for n < len(out) && at < limit {
		// A word of ASCII letters, whatever leads it, that ends within 18 bytes. What comes next is
		// foreseen, not waited for: the next piece can start once the letters are counted.
		if at+18 < len(text) {
			first := load(text, at)
			open := r.two[int(r.classes[first&0xff])<<twoBits|int(r.classes[first>>8&0xff])]
			if open.letters != noLetters {
				fold := uint64(cases)
				if open.letters == lower {
					fold = 0
				}
				end := at + 2 + letterRun16(load(text, at+2)|fold, load(text, at+10)|fold)
				class := uint32(r.classes[text[end]])
				if text[end] >= utf8.RuneSelf || int(class) >= 1<<twoBits-1 {
					class = a.classAt(text, end)
				}
				if next[uint32(open.row)|class] == ends {
					out[n] = uint32(end)
					n, at = n+1, end
					continue
				}
			}
		}
		if end = a.quick(text, at); end < 0 {
			break
		}
		out[n] = uint32(end)
		n, at = n+1, end
	}
	return n, at
}

// classAt is the class of the character at a byte.
func (a *automaton) classAt(text string, at int) uint32 {
	r, _ := utf8.DecodeRuneInString(text[at:])
	return uint32(a.class(r))
}

// quick is match, quickly for ASCII.
func (a *automaton) quick(text string, at int) int {
	if at+10 > len(text) {
		return a.match(text, at)
	}
	open := a.runs.two[int(a.runs.classes[text[at]])<<twoBits|int(a.runs.classes[text[at+1]])]
	row, found := uint32(open.row), -1
	if open.found {
		found = at + 1
	}
	if row == 0 {
		if !open.found {
			return a.match(text, at)
		}
		return found
	}
	if at += 2; open.letters != noLetters {
		at = a.skip(text, at, row)
	}
	return a.resume(text, at, row, found)
}

// skip returns the end of the letters that start at a byte and that a state, which has such,
// stays the same over; or a place before it, near the end of the text.
func (a *automaton) skip(text string, at int, row uint32) int {
	fold := uint64(0)
	if a.runs.letters[row>>a.shift] == lowerAndUpper {
		fold = cases
	}
	for at+8 <= len(text) {
		n := letterRun(load(text, at) | fold)
		at += n
		if n < 8 {
			break
		}
	}
	return at
}

// Bytes, eight of them, for arithmetic on eight at a time.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
	cases = 0x20 * ones
)

// letterRun counts the lower-case letters at the start of eight bytes.
func letterRun(w uint64) int {
	low := w &^ highs
	in := (low + (0x80-'a')*ones) &^ (low + (0x7f-'z')*ones) &^ w & highs
	return bits.TrailingZeros64(in^highs) >> 3
}

// letterRun16 is letterRun for sixteen.
func letterRun16(w, next uint64) int {
	k := letterRun(w)
	return k + letterRun(next)&-(k>>3) // the second eight count if all of the first are letters
}

// load reads eight bytes, which must be there.
func load(text string, at int) uint64 {
	return binary.LittleEndian.Uint64(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(text)), at)), 8))
}
