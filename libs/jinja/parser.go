package jinja

import (
	"errors"
	"slices"
)

const (
	maxSourceBytes = 64 << 10
	maxHeight      = 150 // of an expression, and of statements within each other
)

// parser turns tokens into the program. It notes on the way what the later steps need, so
// that these need not walk expressions: which names there are, how high the tree
// is (the evaluator's stack), and how many nodes it has (the evaluator's cost).
type parser struct {
	tokens    []token
	at        int
	depth     int                   // of the parser's own calls
	height    int                   // of the expression read last
	nodes     int                   // so far
	names     []*nameNode           // so far, read or written
	unknown   []unknown             // filters and tests so far that do not exist
	undefined map[string]*undefined // by name
	fields    map[string]*field     // by name
	loops     int                   // that break and continue would end, within the current macro
}

// unknown is a filter or test that does not exist. That is an error, unless an if stands
// before it that could keep it from being used.
type unknown struct {
	what, name string
	line       int
}

// code is an expression with what the parser noted of it.
type code struct {
	expr
	names []*nameNode
	cost  int
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) look() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

func (p *parser) skip(operator string) bool {
	if p.peek().is(operator) {
		p.at++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.peek().isName(name) {
		p.at++
		return true
	}
	return false
}

func (p *parser) unexpected(want string) error {
	t := p.peek()
	if t.kind == tokenEnd {
		return syntaxError(t.line, "unexpected end of template, expected '%s'", want)
	}
	return syntaxError(t.line, "expected token '%s', got '%.40s'", want, t)
}

func (p *parser) expect(operator string) error {
	if !p.skip(operator) {
		return p.unexpected(operator)
	}
	return nil
}

func (p *parser) expectName() (string, error) {
	if p.peek().kind != tokenName {
		return "", p.unexpected("name")
	}
	return p.next().text, nil
}

func (p *parser) expectKind(kind tokenKind) error {
	if p.peek().kind != kind {
		return p.unexpected(token{kind: kind}.String())
	}
	p.next()
	return nil
}

// deeper guards the parser's own stack; it is followed by a deferred shallower.
func (p *parser) deeper() error {
	if p.depth++; p.depth > maxHeight {
		return syntaxError(p.peek().line, "nests deeper than %d", maxHeight)
	}
	return nil
}

func (p *parser) shallower() { p.depth-- }

// over notes a node over operands of some heights.
func (p *parser) over(heights ...int) error {
	p.nodes++
	p.height = 1
	if len(heights) > 0 {
		p.height += slices.Max(heights)
	}
	if p.height > maxHeight {
		return syntaxError(p.peek().line, "nests deeper than %d", maxHeight)
	}
	return nil
}

// code reads an expression and notes what is in it.
func (p *parser) code(parse func() (expr, error)) (code, error) {
	nodes, names := p.nodes, len(p.names)
	e, err := parse()
	return code{e, p.names[names:len(p.names):len(p.names)], p.nodes - nodes}, err
}

// parse reads a whole template.
func parse(source string) ([]stmt, error) {
	if len(source) > maxSourceBytes {
		return nil, errors.New("the template is longer than 64 KiB")
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, undefined: map[string]*undefined{}, fields: map[string]*field{}}
	body, err := p.body(nil)
	if err != nil {
		return nil, err
	}
	if len(p.unknown) > 0 {
		u := p.unknown[0]
		return nil, syntaxError(u.line, "no %s named %s", u.what, quote(u.name))
	}
	return body, nil
}

func (p *parser) undefinedOf(name string) *undefined {
	u, ok := p.undefined[name]
	if !ok {
		u = &undefined{name: name}
		p.undefined[name] = u
	}
	return u
}

func (p *parser) fieldOf(name string) *field {
	f, ok := p.fields[name]
	if !ok {
		f = newField(name)
		p.fields[name] = f
	}
	return f
}

// forgive drops the unknown filters and tests since a mark, which only matter once they
// run.
func (p *parser) forgive(mark int) { p.unknown = p.unknown[:mark] }
