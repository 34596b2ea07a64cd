package split

import (
	"errors"
	"fmt"
)

// instruction of a program that runs over one character at a time.
type instruction struct {
	code code
	set  int // codeSet, codeAhead: index into program.sets
	not  bool
	x, y int // codeFork: goes on at both, x preferred; codeJump: at x
}

type code uint8

const (
	codeSet   code = iota // consume a character of the set, go on at the next instruction
	codeAhead             // look at the next character, go on at the next instruction
	codeFork
	codeJump
	codeMatch
)

// program is an expression as instructions; it starts at the first.
type program struct {
	code []instruction
	sets []set
}

const maxInstructions = 20_000

func compile(root *node) (*program, error) {
	p := &program{}
	if err := p.node(root, nil); err != nil {
		return nil, err
	}
	p.emit(instruction{code: codeMatch})
	return p, nil
}

func (p *program) emit(i instruction) int {
	p.code = append(p.code, i)
	return len(p.code) - 1
}

func (p *program) set(s set) int {
	p.sets = append(p.sets, s)
	return len(p.sets) - 1
}

// target is the place that jumps from a place lead to: states that differ by jumps only are one.
func (p *program) target(at int) int {
	for p.code[at].code == codeJump {
		at = p.code[at].x
	}
	return at
}

// node writes an expression; rest is what must follow it, nearest first.
func (p *program) node(n *node, rest []*node) error {
	if len(p.code) > maxInstructions {
		return fmt.Errorf("pattern is too large: more than %d instructions", maxInstructions)
	}
	switch n.op {
	case opSet:
		p.emit(instruction{code: codeSet, set: p.set(n.set)})
	case opAhead:
		p.emit(instruction{code: codeAhead, set: p.set(n.set), not: n.not})
	case opConcat:
		for i, sub := range n.subs {
			follow := append(append([]*node(nil), n.subs[i+1:]...), rest...)
			if err := p.node(sub, follow); err != nil {
				return err
			}
		}
	case opAlternate:
		return p.alternate(n, rest)
	case opRepeat:
		return p.repetition(n, rest)
	}
	return nil
}

// repetition writes a possessive repetition as a greedy one that cannot give anything back.
func (p *program) repetition(n *node, rest []*node) error {
	sub := n.subs[0]
	switch {
	case !n.own:
	case n.max < 0 && sub.op == opSet: // all there is, so none of it follows
		none := &node{op: opAhead, not: true, set: sub.set}
		greedy := *n
		greedy.own = false
		return p.node(&node{op: opConcat, subs: []*node{&greedy, none}}, rest)
	case !givesNothingBack(sub, rest):
		return errors.New("this possessive repetition is supported only where nothing that follows can begin like what it repeats")
	}
	return p.repeat(n, rest)
}

func (p *program) alternate(n *node, rest []*node) error {
	var ends []int
	for i, sub := range n.subs {
		fork := -1
		if i+1 < len(n.subs) {
			fork = p.emit(instruction{code: codeFork, x: len(p.code) + 1})
		}
		if err := p.node(sub, rest); err != nil {
			return err
		}
		if fork >= 0 {
			ends = append(ends, p.emit(instruction{code: codeJump}))
			p.code[fork].y = len(p.code)
		}
	}
	for _, end := range ends {
		p.code[end].x = len(p.code)
	}
	return nil
}

func (p *program) repeat(n *node, rest []*node) error {
	sub := n.subs[0]
	if n.max != 1 { // it may follow itself
		again := &node{op: opRepeat, subs: n.subs, max: -1}
		rest = append([]*node{again}, rest...)
	}
	for range n.min {
		if err := p.node(sub, rest); err != nil {
			return err
		}
	}
	if n.max < 0 {
		if _, empty := first(sub); empty {
			return errors.New("a repetition without a bound, of what may match nothing, is not supported")
		}
		fork := p.emit(instruction{code: codeFork})
		if err := p.node(sub, rest); err != nil {
			return err
		}
		p.emit(instruction{code: codeJump, x: fork})
		p.branch(fork, n.lazy)
		return nil
	}
	var forks []int
	for range n.max - n.min {
		forks = append(forks, p.emit(instruction{code: codeFork}))
		if err := p.node(sub, rest); err != nil {
			return err
		}
	}
	for _, fork := range forks {
		p.branch(fork, n.lazy)
	}
	return nil
}

// branch lets a fork go into the body that follows it or past all that was written.
func (p *program) branch(fork int, lazy bool) {
	f := &p.code[fork]
	f.x, f.y = fork+1, len(p.code)
	if lazy {
		f.x, f.y = f.y, f.x
	}
}

// givesNothingBack reports whether a possessive repetition of sub is the same as a greedy
// one: it is when the rest could not begin with what it would give back.
func givesNothingBack(sub *node, rest []*node) bool {
	first, empty := firsts([]*node{sub})
	if empty || len(rest) > 0 && rest[0].op == opAhead {
		return false
	}
	follow, _ := firsts(rest)
	return !first.meets(follow)
}

// firsts is the set of characters with which a sequence can begin, and whether it can be empty.
func firsts(seq []*node) (out set, empty bool) {
	for _, n := range seq {
		s, e := first(n)
		out = append(out, s...)
		if !e {
			return out.normal(), false
		}
	}
	return out.normal(), true
}

func first(n *node) (out set, empty bool) {
	switch n.op {
	case opSet:
		return n.set, false
	case opAhead:
		return nil, true
	case opConcat:
		return firsts(n.subs)
	case opRepeat:
		s, e := first(n.subs[0])
		return s, e || n.min == 0
	}
	for _, sub := range n.subs {
		s, e := first(sub)
		out, empty = append(out, s...), empty || e
	}
	return out.normal(), empty
}
