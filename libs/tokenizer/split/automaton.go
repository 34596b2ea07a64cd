package split

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// automaton finds the match of an expression that starts at a byte: the one that a
// backtracking engine finds first, in one pass and without stepping back.
//
// It is deterministic. A state is the list of places in the program from which a match may
// go on, the preferred first. Characters that no set of the program tells apart are one
// class. A transition looks at the class of the next character (or at the end of the text) and
// says whether a match ends before it, then where the match may go on behind it.
type automaton struct {
	ascii   [utf8.RuneSelf]uint8
	pages   [(maxRune + 1) >> pageBits]uint16 // of a character: the page of its class
	classes []uint8                           // pages of 1<<pageBits
	// next holds for each state a row of 1<<shift transitions; that of the text's end is the last class.
	next  []transition
	shift uint
	end   int // the class of the text's end
	runs  runs
}

const pageBits = 7

// transition is the row of the next state, times two, plus one if a match ends before the
// character. Row 0 is the state without a way on.
type transition uint32

const (
	ends  transition = 1
	start            = 1 // the number of the first state
)

const (
	maxStates  = 4096
	maxClasses = 250
	maxWork    = 20_000_000 // some tenths of a second; real patterns need some thousands
)

// match returns the end of the match that starts at byte at of text, or -1.
func (a *automaton) match(text string, at int) int {
	return a.resume(text, at, uint32(start)<<a.shift, -1)
}

// resume goes on at a byte in the row of a state, with the end of the last match found.
func (a *automaton) resume(text string, at int, row uint32, found int) int {
	for i := at; i < len(text); {
		class, n := uint32(0), 1
		if b := text[i]; b < utf8.RuneSelf {
			class = uint32(a.ascii[b])
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(text[i:])
			class = uint32(a.class(r))
		}
		t := a.next[row|class]
		if t&ends != 0 {
			found = i
		}
		if row = uint32(t >> 1); row == 0 {
			return found
		}
		if i += n; a.runs.letters[row>>a.shift] != noLetters {
			i = a.skip(text, i, row)
		}
	}
	if a.next[row|uint32(a.end)]&ends != 0 {
		return len(text)
	}
	return found
}

func (a *automaton) class(r rune) uint8 {
	return a.classes[int(a.pages[r>>pageBits])<<pageBits|int(r&(1<<pageBits-1))]
}

// build makes the automaton of a pattern.
func build(root *node) (*automaton, error) {
	p, err := compile(root)
	if err != nil {
		return nil, err
	}
	b := &builder{program: p, a: &automaton{}, states: map[string]int{}}
	if err := b.partition(); err != nil {
		return nil, err
	}
	for b.a.shift = 1; 1<<b.a.shift < b.a.end+1; b.a.shift++ {
	}
	b.add(nil)
	b.add([]int{0})
	for n := start; n < len(b.lists); n++ {
		if err := b.row(n); err != nil {
			return nil, err
		}
	}
	for _, t := range b.a.next[start<<b.a.shift:][:b.a.end+1] {
		if t&ends != 0 {
			return nil, errors.New("the pattern matches nothing at all, want one character at least")
		}
	}
	b.a.runs.build(b.a)
	return b.a, nil
}

type builder struct {
	program *program
	a       *automaton
	members [][]bool // class, then set: whether the class is in it; the text's end is in none
	lists   [][]int  // of each state: places in the program
	states  map[string]int
	seen    []bool // places of the program, while a transition is made
	work    int    // places looked at so far
}

// partition finds the classes and gives each character its own.
func (b *builder) partition() error {
	borders := []rune{0, maxRune + 1}
	for _, s := range b.program.sets {
		for _, r := range s {
			borders = append(borders, r.Lo, r.Hi+1)
		}
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	known := map[string]uint8{}
	of := make([]uint8, maxRune+1)
	for i, low := range borders[:len(borders)-1] {
		member := make([]bool, len(b.program.sets))
		key := make([]byte, len(member))
		for j, s := range b.program.sets {
			if member[j] = s.has(low); member[j] {
				key[j] = 1
			}
		}
		class, ok := known[string(key)]
		if !ok {
			if len(known) == maxClasses {
				return fmt.Errorf("the pattern tells more than %d kinds of characters apart", maxClasses)
			}
			class = uint8(len(known))
			known[string(key)] = class
			b.members = append(b.members, member)
		}
		for r := low; r < borders[i+1]; r++ {
			of[r] = class
		}
	}
	b.a.end = len(b.members)
	b.members = append(b.members, make([]bool, len(b.program.sets)))
	b.pages(of)
	return nil
}

// pages packs the classes of all characters, equal pages once.
func (b *builder) pages(of []uint8) {
	copy(b.a.ascii[:], of)
	known := map[string]uint16{}
	for p := range b.a.pages {
		page := of[p<<pageBits:][:1<<pageBits]
		at, ok := known[string(page)]
		if !ok {
			at = uint16(len(known))
			known[string(page)] = at
			b.a.classes = append(b.a.classes, page...)
		}
		b.a.pages[p] = at
	}
}

func (b *builder) add(list []int) int {
	key := make([]byte, 0, len(list)*4)
	for _, at := range list {
		key = append(key, byte(at), byte(at>>8), byte(at>>16), ',')
	}
	n, ok := b.states[string(key)]
	if !ok {
		n = len(b.lists)
		b.states[string(key)] = n
		b.lists = append(b.lists, list)
		b.a.next = append(b.a.next, make([]transition, 1<<b.a.shift)...)
	}
	return n
}

// row fills in the transitions of a state.
func (b *builder) row(n int) error {
	for class := range b.members {
		list, ended := b.step(b.lists[n], class)
		t := transition(0)
		if class != b.a.end {
			t = transition(b.add(list)<<b.a.shift) << 1
		}
		if ended {
			t |= ends
		}
		b.a.next[n<<b.a.shift|class] = t
		if len(b.lists) > maxStates {
			return fmt.Errorf("the pattern needs more than %d states", maxStates)
		}
		if b.work > maxWork {
			return errors.New("the pattern takes too long to prepare, want a simpler one")
		}
	}
	return nil
}

// step follows a list over a character of a class. Places that are less preferred than the
// end of a match are dropped.
func (b *builder) step(list []int, class int) (next []int, ended bool) {
	b.seen = slices.Grow(b.seen[:0], len(b.program.code))[:len(b.program.code)]
	clear(b.seen)
	b.work += len(list) + len(b.seen)/16
	stack := slices.Clone(list)
	slices.Reverse(stack)
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if b.seen[at] {
			continue
		}
		b.seen[at] = true
		b.work++
		switch i := b.program.code[at]; i.code {
		case codeMatch:
			return next, true
		case codeJump:
			stack = append(stack, i.x)
		case codeFork:
			stack = append(stack, i.y, i.x)
		case codeAhead:
			if b.members[class][i.set] != i.not {
				stack = append(stack, at+1)
			}
		case codeSet:
			if to := b.program.target(at + 1); b.members[class][i.set] && !slices.Contains(next, to) {
				next = append(next, to)
			}
		}
	}
	return next, false
}
