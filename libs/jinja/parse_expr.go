package jinja

import (
	"math/big"
	"strconv"
	"strings"
)

// The grammar, from the loosest binding to the tightest: if else, or, and, not,
// comparisons, + and -, ~, * / // %, **, signs, then subscripts and calls, and filters and
// tests. Unlike Python's, ** binds to the left, and tighter than no sign.

func (p *parser) expression() (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.shallower()
	unknowns := len(p.unknown)
	left, err := p.or()
	if err != nil {
		return nil, err
	}
	for p.peek().isName("if") {
		line := p.next().line
		height := p.height
		n := &condNode{then: left, line: line}
		if n.test, err = p.or(); err != nil {
			return nil, err
		}
		testHeight := p.height
		p.height = 0
		if p.skipName("else") {
			if n.otherwise, err = p.expression(); err != nil {
				return nil, err
			}
		}
		if err := p.over(height, testHeight, p.height); err != nil {
			return nil, err
		}
		p.forgive(unknowns)
		left = n
	}
	return left, nil
}

// binary reads operands joined by operators, from left to right.
func (p *parser) binary(operand func() (expr, error), operator func() (make func(l, r expr) expr)) (expr, error) {
	left, err := operand()
	if err != nil {
		return nil, err
	}
	for {
		node := operator()
		if node == nil {
			return left, nil
		}
		height := p.height
		right, err := operand()
		if err != nil {
			return nil, err
		}
		if err := p.over(height, p.height); err != nil {
			return nil, err
		}
		left = node(left, right)
	}
}

func (p *parser) or() (expr, error) {
	return p.binary(p.and, func() func(l, r expr) expr {
		if !p.skipName("or") {
			return nil
		}
		return func(l, r expr) expr { return &orNode{l, r} }
	})
}

func (p *parser) and() (expr, error) {
	return p.binary(p.not, func() func(l, r expr) expr {
		if !p.skipName("and") {
			return nil
		}
		return func(l, r expr) expr { return &andNode{l, r} }
	})
}

func (p *parser) not() (expr, error) {
	if !p.skipName("not") {
		return p.compare()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.shallower()
	e, err := p.not()
	if err != nil {
		return nil, err
	}
	return &notNode{e}, p.over(p.height)
}

func (p *parser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	height := p.height
	var operands []operand
	for {
		how, ok := p.comparison()
		if !ok {
			break
		}
		e, err := p.sum()
		if err != nil {
			return nil, err
		}
		operands = append(operands, operand{how, e})
		height = max(height, p.height)
		p.nodes++
	}
	switch len(operands) {
	case 0:
		return first, nil
	case 1:
		return &compareNode{first, operands[0].e, operands[0].how}, p.over(height)
	}
	return &chainNode{first, operands}, p.over(height)
}

func (p *parser) comparison() (comparison, bool) {
	t := p.peek()
	if t.kind == tokenOperator {
		if how, ok := comparisons()[t.text]; ok {
			p.next()
			return how, true
		}
		return 0, false
	}
	if t.isName("in") {
		p.next()
		return compareIn, true
	}
	if t.isName("not") && p.look().isName("in") {
		p.at += 2
		return compareNotIn, true
	}
	return 0, false
}

func (p *parser) arithmetic(operand func() (expr, error), operators string) (expr, error) {
	return p.binary(operand, func() func(l, r expr) expr {
		t := p.peek()
		if t.kind != tokenOperator || !strings.Contains(operators, " "+t.text+" ") {
			return nil
		}
		p.next()
		if t.text == "+" {
			return sumOf
		}
		return func(l, r expr) expr { return &binaryNode{op: t.text, fn: binaryOps()[t.text], l: l, r: r} }
	})
}

// sumOf puts a chain of + into one node.
func sumOf(l, r expr) expr {
	if n, ok := l.(*sumNode); ok {
		n.parts = append(n.parts, r)
		return n
	}
	return &sumNode{parts: []expr{l, r}}
}

func (p *parser) sum() (expr, error) { return p.arithmetic(p.concat, " + - ") }

func (p *parser) product() (expr, error) { return p.arithmetic(p.power, " * / // % ") }

func (p *parser) power() (expr, error) { return p.arithmetic(p.signed, " ** ") }

func (p *parser) concat() (expr, error) {
	first, err := p.product()
	if err != nil || !p.peek().is("~") {
		return first, err
	}
	n, height := &concatNode{[]expr{first}}, p.height
	for p.skip("~") {
		e, err := p.product()
		if err != nil {
			return nil, err
		}
		n.parts = append(n.parts, e)
		height = max(height, p.height)
		p.nodes++
	}
	return n, p.over(height)
}

func (p *parser) signed() (expr, error) { return p.unary(true) }

func (p *parser) unary(filters bool) (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.shallower()
	var e expr
	var err error
	switch t := p.peek(); {
	case t.is("-") || t.is("+"):
		p.next()
		if e, err = p.unary(false); err == nil {
			e = &signNode{minus: t.text == "-", e: e}
			err = p.over(p.height)
		}
	default:
		e, err = p.primary()
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && filters {
		e, err = p.filters(e)
	}
	return e, err
}

func (p *parser) primary() (expr, error) {
	t := p.peek()
	switch {
	case t.kind == tokenName:
		p.next()
		return p.name(t), p.over()
	case t.kind == tokenString:
		p.next()
		parts := []string{t.text}
		for p.peek().kind == tokenString {
			parts = append(parts, p.next().text)
		}
		return &constNode{String(strings.Join(parts, ""))}, p.over()
	case t.kind == tokenInteger || t.kind == tokenFloat:
		p.next()
		v, err := number(t)
		if err != nil {
			return nil, err
		}
		return &constNode{v}, p.over()
	case t.is("("):
		p.next()
		e, err := p.tuple(tupleRules{parentheses: true, condition: true})
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	case t.is("["):
		p.next()
		items, err := p.items("]")
		return &listNode{items: items}, err
	case t.is("{"):
		return p.dict()
	}
	return nil, syntaxError(t.line, "unexpected '%.40s'", t)
}

func (p *parser) name(t token) expr {
	switch t.text {
	case "true", "True":
		return &constNode{Bool(true)}
	case "false", "False":
		return &constNode{Bool(false)}
	case "none", "None":
		return &constNode{None()}
	}
	n := &nameNode{name: t.text, undefined: p.undefinedOf(t.text)}
	p.names = append(p.names, n)
	return n
}

func number(t token) (Value, error) {
	text := strings.ReplaceAll(t.text, "_", "")
	if t.kind == tokenFloat {
		f, _ := strconv.ParseFloat(text, 64) // what is out of range is infinite, as in Python
		return Float(f), nil
	}
	if len(text) > maxIntDigits {
		return Value{}, syntaxError(t.line, "an integer has %d digits, want at most %d", len(text), maxIntDigits)
	}
	base := 0
	if strings.Trim(text, "0") == "" {
		base, text = 10, "0"
	}
	i, ok := new(big.Int).SetString(text, base)
	if !ok {
		return Value{}, syntaxError(t.line, "%q is no integer", t.text)
	}
	return BigInt(i), nil
}

// items reads expressions parted by commas up to the end, and notes a node over them.
func (p *parser) items(end string) ([]expr, error) {
	var items []expr
	height := 0
	for !p.peek().is(end) {
		if len(items) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
			if p.peek().is(end) {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		height = max(height, p.height)
	}
	p.next()
	return items, p.over(height)
}

func (p *parser) dict() (expr, error) {
	p.next()
	n, height := &dictNode{}, 0
	for !p.peek().is("}") {
		if len(n.keys) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
			if p.peek().is("}") {
				break
			}
		}
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		height = max(height, p.height)
		if err := p.expect(":"); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		height = max(height, p.height)
		n.keys, n.values = append(n.keys, key), append(n.values, value)
	}
	p.next()
	return n, p.over(height)
}

// tupleRules say where a tuple ends, and what may be in it.
type tupleRules struct {
	parentheses bool // it may be empty
	condition   bool // its items may be a if b
	end         string
}

// tuple reads an expression, or several parted by commas.
func (p *parser) tuple(rules tupleRules) (expr, error) {
	parse := p.or
	if rules.condition {
		parse = p.expression
	}
	var items []expr
	height, comma := 0, false
	for {
		if len(items) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		t := p.peek()
		if t.kind == tokenPrintEnd || t.kind == tokenBlockEnd || t.is(")") || rules.end != "" && t.isName(rules.end) {
			break
		}
		e, err := parse()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		height = max(height, p.height)
		if !p.peek().is(",") {
			break
		}
		comma = true
	}
	if !comma && len(items) == 1 {
		return items[0], nil
	}
	if !comma && !rules.parentheses {
		return nil, syntaxError(p.peek().line, "expected an expression, got '%.40s'", p.peek())
	}
	return &listNode{items: items, tuple: true}, p.over(height)
}
