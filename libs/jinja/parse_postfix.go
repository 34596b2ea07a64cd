package jinja

import "strings"

// postfix reads subscripts and calls after an expression.
func (p *parser) postfix(e expr) (expr, error) {
	for {
		t := p.peek()
		var err error
		switch {
		case t.is("."):
			e, err = p.attribute(e)
		case t.is("["):
			e, err = p.subscript(e)
		case t.is("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// filters reads filters and tests after an expression, and calls of what they give.
func (p *parser) filters(e expr) (expr, error) {
	for {
		t := p.peek()
		var err error
		switch {
		case t.is("|"):
			p.next()
			e, err = p.filter(e)
		case t.isName("is"):
			e, err = p.test(e)
		case t.is("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) attribute(e expr) (expr, error) {
	p.next()
	height := p.height
	t := p.next()
	switch t.kind {
	case tokenName:
		return &attrNode{e, p.fieldOf(t.text)}, p.over(height)
	case tokenInteger:
		index, err := number(t)
		if err != nil {
			return nil, err
		}
		return &itemNode{e, &constNode{index}}, p.over(height)
	}
	return nil, syntaxError(t.line, "expected name or number")
}

// newItem is a[b]. By the name of a field it is looked up much like a.b.
func (p *parser) newItem(of, index expr) expr {
	if c, ok := index.(*constNode); ok && c.v.isString() && c.v.str != "" {
		return &fieldNode{of, p.fieldOf(c.v.str)}
	}
	return &itemNode{of, index}
}

func (p *parser) subscript(e expr) (expr, error) {
	p.next()
	height := p.height
	var items []expr
	for !p.peek().is("]") {
		if len(items) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		item, err := p.subscribed()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		height = max(height, p.height)
	}
	line := p.next().line
	if len(items) == 1 {
		if s, ok := items[0].(*sliceNode); ok {
			s.of = e
			return s, p.over(height)
		}
		return p.newItem(e, items[0]), p.over(height)
	}
	for _, item := range items {
		if _, ok := item.(*sliceNode); ok {
			return nil, syntaxError(line, "a slice in a tuple is not supported")
		}
	}
	return &itemNode{e, &listNode{items: items, tuple: true}}, p.over(height, p.height)
}

// subscribed reads an index or a slice, of which the parts are optional.
func (p *parser) subscribed() (expr, error) {
	s, height := &sliceNode{}, 0
	part := func() (expr, error) {
		e, err := p.expression()
		height = max(height, p.height)
		return e, err
	}
	var err error
	if !p.peek().is(":") {
		if s.from, err = part(); err != nil || !p.peek().is(":") {
			return s.from, err
		}
	}
	p.next()
	ends := func() bool { return p.peek().is(":") || p.peek().is("]") || p.peek().is(",") }
	if !ends() {
		if s.to, err = part(); err != nil {
			return nil, err
		}
	}
	if p.skip(":") && !ends() {
		if s.step, err = part(); err != nil {
			return nil, err
		}
	}
	return s, p.over(height)
}

func (p *parser) call(e expr) (expr, error) {
	height := p.height
	arguments, err := p.arguments()
	if err != nil {
		return nil, err
	}
	return &callNode{of: e, arguments: arguments}, p.over(height, p.height)
}

// arguments reads the arguments of a call with their brackets.
func (p *parser) arguments() (a arguments, err error) {
	line := p.peek().line
	if err := p.expect("("); err != nil {
		return a, err
	}
	height, first := 0, true
	for !p.peek().is(")") {
		if !first {
			if err := p.expect(","); err != nil {
				return a, err
			}
			if p.peek().is(")") {
				break
			}
		}
		first = false
		ok, err := p.argument(&a)
		if err != nil {
			return a, err
		}
		if !ok {
			return a, syntaxError(line, "invalid syntax for function call expression")
		}
		height = max(height, p.height)
	}
	p.next()
	p.height = height
	return a, nil
}

// argument reads one; ok is false if it must not follow those before.
func (p *parser) argument(a *arguments) (ok bool, err error) {
	switch {
	case p.skip("*"):
		if a.more != nil || a.moreNamed != nil {
			return false, nil
		}
		a.more, err = p.expression()
	case p.skip("**"):
		if a.moreNamed != nil {
			return false, nil
		}
		a.moreNamed, err = p.expression()
	case p.peek().kind == tokenName && p.look().is("="):
		if a.moreNamed != nil {
			return false, nil
		}
		name := p.next().text
		p.next()
		for _, n := range a.named {
			if n.name == name {
				return false, nil
			}
		}
		var e expr
		e, err = p.expression()
		a.named = append(a.named, namedArgument{name, e})
	default:
		if a.more != nil || a.moreNamed != nil || len(a.named) > 0 {
			return false, nil
		}
		var e expr
		e, err = p.expression()
		a.plain = append(a.plain, e)
	}
	return true, err
}

func (p *parser) dotted() (string, error) {
	name, err := p.expectName()
	if err != nil || !p.peek().is(".") {
		return name, err
	}
	parts := []string{name}
	for p.skip(".") {
		if name, err = p.expectName(); err != nil {
			return "", err
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, "."), nil
}

// filter reads a filter after its bar. Its operand is nil in a filter block.
func (p *parser) filter(e expr) (*filterNode, error) {
	line, height := p.peek().line, p.height
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	n := &filterNode{of: e, name: name, fn: filterByName(name)}
	if n.fn == nil {
		p.unknown = append(p.unknown, unknown{"filter", name, line})
	}
	p.height = 0
	if p.peek().is("(") {
		if n.arguments, err = p.arguments(); err != nil {
			return nil, err
		}
	}
	return n, p.over(height, p.height)
}

func (p *parser) test(e expr) (expr, error) {
	line, height := p.next().line, p.height
	negated := p.skipName("not")
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	n := &testNode{of: e, name: name, fn: testByName(name), negated: negated}
	if n.fn == nil {
		p.unknown = append(p.unknown, unknown{"test", name, line})
	}
	p.height = 0
	t := p.peek()
	switch {
	case t.is("("):
		if n.arguments, err = p.arguments(); err != nil {
			return nil, err
		}
	case t.isName("is"):
		return nil, syntaxError(line, "you cannot chain multiple tests with is")
	case t.isAnyName([]string{"else", "or", "and"}):
	case t.kind == tokenName || t.kind == tokenString || t.kind == tokenInteger || t.kind == tokenFloat || t.is("[") || t.is("{"):
		argument, err := p.primary()
		if err == nil {
			argument, err = p.postfix(argument)
		}
		if err != nil {
			return nil, err
		}
		n.arguments.plain = []expr{argument}
	}
	return n, p.over(height, p.height)
}
