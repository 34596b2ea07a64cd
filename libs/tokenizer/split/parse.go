package split

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// node is a parsed expression.
type node struct {
	op       op
	set      set     // opSet, opAhead
	subs     []*node // opConcat, opAlternate; one for opRepeat
	min, max int     // opRepeat; max is -1 without a bound
	lazy     bool    // opRepeat
	own      bool    // opRepeat is possessive: gives nothing back
	not      bool    // opAhead
}

type op uint8

const (
	opSet       op = iota // one character of a set
	opConcat              // all of subs, one after the other
	opAlternate           // the first of subs that leads to a match
	opRepeat              // subs[0], min to max times
	opAhead               // the next character is of the set, or with not: there is none of it
)

const (
	maxPatternBytes = 16 << 10
	maxDepth        = 64
	maxRepeat       = 1000
)

// parser reads the part of Oniguruma's syntax that pre-tokenizers use.
type parser struct {
	rest  string
	whole string
	depth int
	fold  bool
}

func parse(pattern string) (*node, error) {
	if len(pattern) > maxPatternBytes {
		return nil, fmt.Errorf("pattern has %d bytes, want at most %d", len(pattern), maxPatternBytes)
	}
	if !utf8.ValidString(pattern) {
		return nil, errors.New("pattern is not valid UTF-8")
	}
	p := &parser{rest: pattern, whole: pattern}
	n, err := p.alternate()
	if err == nil && p.rest != "" {
		err = fmt.Errorf("%q closes nothing", p.rest[:1])
	}
	if err != nil {
		return nil, fmt.Errorf("pattern at byte %d: %w", len(pattern)-len(p.rest), err)
	}
	return n, nil
}

func (p *parser) peek() byte {
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

func (p *parser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

// rune is the next character; the caller knows that there is one.
func (p *parser) rune() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

func (p *parser) alternate() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("groups nest deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	first, err := p.concat()
	if err != nil || p.peek() != '|' {
		return first, err
	}
	n := &node{op: opAlternate, subs: []*node{first}}
	for p.take("|") {
		sub, err := p.concat()
		if err != nil {
			return nil, err
		}
		n.subs = append(n.subs, sub)
	}
	return n, nil
}

func (p *parser) concat() (*node, error) {
	n := &node{op: opConcat}
	for p.rest != "" && p.peek() != '|' && p.peek() != ')' {
		sub, err := p.atom()
		if err != nil {
			return nil, err
		}
		if sub, err = p.repeat(sub); err != nil {
			return nil, err
		}
		n.subs = append(n.subs, sub)
	}
	return n, nil
}

func (p *parser) repeat(sub *node) (*node, error) {
	n := &node{op: opRepeat, subs: []*node{sub}}
	switch p.peek() {
	case '*':
		n.max = -1
	case '+':
		n.min, n.max = 1, -1
	case '?':
		n.max = 1
	case '{':
		ok, err := p.bounds(n)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errors.New(`want a literal { as \{`)
		}
	default:
		return sub, nil
	}
	braces := p.peek() == '}' // bounds leaves the last byte, like the others
	p.rest = p.rest[1:]
	switch {
	case braces && p.take("?"):
		return nil, errors.New("a lazy repetition {…}? is not supported")
	case braces && p.take("+"): // repeats the whole, in this syntax
		return &node{op: opRepeat, subs: []*node{n}, min: 1, max: -1}, nil
	default:
		n.own, n.lazy = p.take("+"), p.take("?")
	}
	if c := p.peek(); c == '*' || c == '+' || c == '?' || c == '{' {
		return nil, fmt.Errorf("%q repeats a repetition", string(c))
	}
	return n, nil
}

func (p *parser) bounds(n *node) (ok bool, err error) {
	inner, _, found := strings.Cut(p.rest[1:], "}")
	if !found {
		return false, nil
	}
	low, high, ranged := strings.Cut(inner, ",")
	if n.min, err = strconv.Atoi(low); err != nil && !(ranged && low == "") {
		return false, nil
	}
	n.max = n.min
	if ranged {
		n.max = -1
		if high != "" {
			if n.max, err = strconv.Atoi(high); err != nil {
				return false, nil
			}
		}
	}
	if n.min < 0 || n.min > maxRepeat || n.max > maxRepeat || n.max >= 0 && n.max < n.min {
		return false, fmt.Errorf("bounds {%s}, want 0 to %d in order", inner, maxRepeat)
	}
	p.rest = p.rest[1+len(inner):]
	return true, nil
}

func (p *parser) atom() (*node, error) {
	switch c := p.peek(); c {
	case '(':
		return p.group()
	case '[':
		p.rest = p.rest[1:]
		s, err := p.class()
		return &node{op: opSet, set: s}, err
	case '.':
		p.rest = p.rest[1:]
		return &node{op: opSet, set: set{{Lo: '\n', Hi: '\n'}}.complement()}, nil
	case '$': // the end of a line
		p.rest = p.rest[1:]
		return &node{op: opAhead, not: true, set: set{{Lo: '\n', Hi: '\n'}}.complement()}, nil
	case '^', '*', '+', '?':
		return nil, fmt.Errorf("%q is not supported here", string(c))
	case '\\':
		s, err := p.escape()
		return &node{op: opSet, set: s}, err
	}
	return &node{op: opSet, set: p.folded(single(p.rune()))}, nil
}

func (p *parser) folded(s set) set {
	if p.fold {
		return s.fold()
	}
	return s
}

func (p *parser) group() (n *node, err error) {
	fold := p.fold
	switch {
	case p.take("(?:"):
	case p.take("(?i:"):
		p.fold = true
	case p.take("(?!"):
		return p.ahead(true)
	case p.take("(?="):
		return p.ahead(false)
	case strings.HasPrefix(p.rest, "(?"), strings.HasPrefix(p.rest, "(*"):
		return nil, fmt.Errorf("group %.4q is not supported", p.rest)
	default:
		p.rest = p.rest[1:]
	}
	if n, err = p.alternate(); err != nil {
		return nil, err
	}
	p.fold = fold
	if !p.take(")") {
		return nil, errors.New(`")" is missing`)
	}
	return n, nil
}

// ahead reads a look at the next character. Longer looks are not supported.
func (p *parser) ahead(not bool) (*node, error) {
	n, err := p.alternate()
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, errors.New(`")" is missing`)
	}
	for n.op == opConcat && len(n.subs) == 1 {
		n = n.subs[0]
	}
	if n.op != opSet {
		return nil, errors.New("a look ahead at other than one character is not supported")
	}
	return &node{op: opAhead, not: not, set: n.set}, nil
}
