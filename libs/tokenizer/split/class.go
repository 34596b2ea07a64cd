package split

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// class reads a bracketed class after its "[".
func (p *parser) class() (set, error) {
	not := p.take("^")
	var out set
	for first := true; ; first = false {
		if p.rest == "" {
			return nil, errors.New(`"]" is missing`)
		}
		if p.peek() == ']' && !first {
			break
		}
		if strings.HasPrefix(p.rest, "[") || strings.HasPrefix(p.rest, "&&") {
			return nil, fmt.Errorf("%.2q within a class is not supported", p.rest)
		}
		item, err := p.classItem()
		if err != nil {
			return nil, err
		}
		out = append(out, item...)
	}
	p.rest = p.rest[1:]
	out = p.folded(out.normal())
	if not {
		return out.complement(), nil
	}
	return out, nil
}

// classItem reads a character, a range or an escape of a class.
func (p *parser) classItem() (set, error) {
	low, err := p.classCharacter()
	if err != nil || !strings.HasPrefix(p.rest, "-") || strings.HasPrefix(p.rest, "-]") {
		return low, err
	}
	p.rest = p.rest[1:]
	if p.rest == "" {
		return nil, errors.New(`"]" is missing`)
	}
	high, err := p.classCharacter()
	if err != nil {
		return nil, err
	}
	if !low.single() || !high.single() || high[0].Lo < low[0].Lo {
		return nil, errors.New("a range of a class wants two characters in order")
	}
	return set{{Lo: low[0].Lo, Hi: high[0].Lo}}, nil
}

func (p *parser) classCharacter() (set, error) {
	if p.peek() == '\\' {
		return p.escape()
	}
	return single(p.rune()), nil
}

// escape reads a backslash and what follows.
func (p *parser) escape() (set, error) {
	p.rest = p.rest[1:]
	if p.rest == "" {
		return nil, errors.New("a backslash ends the pattern")
	}
	c := p.rune()
	switch c {
	case 's':
		return property("White_Space")
	case 'S':
		return negated("White_Space")
	case 'd':
		return property("Nd")
	case 'D':
		return negated("Nd")
	case 'w', 'W':
		return word(c == 'W')
	case 'p', 'P':
		return p.property(c == 'P')
	case 'n':
		return single('\n'), nil
	case 'r':
		return single('\r'), nil
	case 't':
		return single('\t'), nil
	case 'f':
		return single('\f'), nil
	case 'v':
		return single('\v'), nil
	case 'x':
		return p.hex()
	}
	if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
		return nil, fmt.Errorf(`escape \%c is not supported`, c)
	}
	return single(c), nil
}

// hex reads \x41 and \x{1F600}, after the x.
func (p *parser) hex() (set, error) {
	digits := ""
	if inner, rest, ok := strings.Cut(strings.TrimPrefix(p.rest, "{"), "}"); strings.HasPrefix(p.rest, "{") && ok {
		digits, p.rest = inner, rest
	} else if len(p.rest) >= 2 {
		digits, p.rest = p.rest[:2], p.rest[2:]
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || n > maxRune {
		return nil, fmt.Errorf(`\x wants the hexadecimal number of a character, not %q`, digits)
	}
	return single(rune(n)), nil
}

// property reads \p{L}, \p{^L} and \pL, after the p.
func (p *parser) property(not bool) (set, error) {
	name := ""
	if inner, rest, ok := strings.Cut(strings.TrimPrefix(p.rest, "{"), "}"); strings.HasPrefix(p.rest, "{") && ok {
		name, p.rest = inner, rest
	} else if p.rest != "" {
		name = string(p.rune())
	}
	if strings.HasPrefix(name, "^") {
		name, not = name[1:], !not
	}
	if not {
		return negated(name)
	}
	return property(name)
}
