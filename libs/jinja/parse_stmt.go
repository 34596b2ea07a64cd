package jinja

import "slices"

// body reads up to a tag whose name is one of the ends, which is left to the caller.
func (p *parser) body(ends []string) ([]stmt, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.shallower()
	var body []stmt
	for {
		t := p.next()
		switch t.kind {
		case tokenEnd:
			if ends != nil {
				return nil, syntaxError(t.line, "unexpected end of template, expected %s", quote(ends[len(ends)-1]))
			}
			return body, nil
		case tokenData:
			body = append(body, &dataNode{t.text, len(t.text)>>6 + 1})
		case tokenPrintBegin:
			s, err := p.print(t.line)
			if err != nil {
				return nil, err
			}
			body = append(body, s)
		case tokenBlockBegin:
			if p.peek().isAnyName(ends) {
				return body, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			body = append(body, s)
			if err := p.expectKind(tokenBlockEnd); err != nil {
				return nil, err
			}
		}
	}
}

func (p *parser) print(line int) (stmt, error) {
	c, err := p.code(func() (expr, error) { return p.tuple(tupleRules{condition: true}) })
	if err != nil {
		return nil, err
	}
	return &printNode{c, line}, p.expectKind(tokenPrintEnd)
}

func (p *parser) statement() (stmt, error) {
	t := p.next()
	if t.kind != tokenName {
		return nil, syntaxError(t.line, "tag name expected")
	}
	parse := map[string]func(int) (stmt, error){
		"set": p.set, "if": p.ifs, "for": p.loop, "macro": p.macro, "call": p.callBlock, "filter": p.filterBlock,
		"with": p.with, "print": p.printTag, "generation": p.generation, "break": p.leaveLoop, "continue": p.leaveLoop,
	}[t.text]
	if parse != nil {
		return parse(t.line)
	}
	switch t.text {
	case "include", "import", "from", "extends", "block", "autoescape", "trans":
		return nil, syntaxError(t.line, "%s is not supported in chat templates", t.text)
	}
	return nil, syntaxError(t.line, "encountered unknown tag %s", quote(t.text))
}

// inner reads the body of a block, and its end tag, which has the last of the names. It
// returns the name that was found.
func (p *parser) inner(ends ...string) (body []stmt, end string, err error) {
	p.skip(":")
	if err := p.expectKind(tokenBlockEnd); err != nil {
		return nil, "", err
	}
	body, err = p.body(ends)
	if err != nil {
		return nil, "", err
	}
	return body, p.next().text, nil
}

func (p *parser) set(line int) (stmt, error) {
	to, err := p.target("", true)
	if err != nil {
		return nil, err
	}
	if p.skip("=") {
		c, err := p.code(func() (expr, error) { return p.tuple(tupleRules{condition: true}) })
		return &setNode{to, c, line}, err
	}
	n := &setBlockNode{to: to, line: line}
	if p.peek().is("|") {
		if n.filter, err = p.filterChain(); err != nil {
			return nil, err
		}
	}
	n.body, _, err = p.inner("endset")
	return n, err
}

// filterChain reads filters for the text of a block, from the bar of the first.
func (p *parser) filterChain() (code, error) {
	return p.code(func() (expr, error) {
		var e expr
		p.height = 0
		for p.skip("|") {
			f, err := p.filter(e)
			if err != nil {
				return nil, err
			}
			e = f
		}
		return e, nil
	})
}

// target reads what is assigned to: names, attributes of namespaces if they are
// allowed, and tuples of these.
func (p *parser) target(end string, attributes bool) (target, error) {
	if err := p.deeper(); err != nil {
		return target{}, err
	}
	defer p.shallower()
	var items []target
	for {
		one, err := p.oneTarget(attributes)
		if err != nil {
			return one, err
		}
		comma := p.skip(",")
		if !comma && items == nil {
			return one, nil
		}
		items = append(items, one)
		t := p.peek()
		if !comma || t.kind == tokenBlockEnd || t.is(")") || t.is("=") || end != "" && t.isName(end) {
			return target{items: items}, nil
		}
	}
}

func (p *parser) oneTarget(attributes bool) (target, error) {
	if p.skip("(") {
		t, err := p.target("", false)
		if err != nil {
			return t, err
		}
		return t, p.expect(")")
	}
	t := p.peek()
	name, err := p.expectName()
	if err != nil {
		return target{}, err
	}
	if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, name) {
		return target{}, syntaxError(t.line, "can't assign to 'const'")
	}
	n := &nameNode{name: name}
	if attributes && p.skip(".") {
		p.names = append(p.names, n)
		n.undefined = p.undefinedOf(name)
		attr, err := p.expectName()
		return target{name: n, attr: attr}, err
	}
	n.written = true
	p.names = append(p.names, n)
	return target{name: n}, nil
}

func (p *parser) condition() (expr, error) { return p.tuple(tupleRules{}) }

func (p *parser) ifs(line int) (stmt, error) {
	unknowns := len(p.unknown)
	n := &ifNode{}
	for {
		test, err := p.code(p.condition)
		if err != nil {
			return nil, err
		}
		body, end, err := p.inner("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		n.branches = append(n.branches, branch{test, body, line})
		line = p.peek().line
		if end == "elif" {
			continue
		}
		if end == "else" {
			if n.otherwise, _, err = p.inner("endif"); err != nil {
				return nil, err
			}
		}
		p.forgive(unknowns)
		return n, nil
	}
}

func (p *parser) loop(line int) (stmt, error) {
	n := &forNode{line: line}
	var err error
	if n.to, err = p.target("in", false); err != nil {
		return nil, err
	}
	if n.to.has("loop") {
		return nil, syntaxError(line, "can't assign to special loop variable in for-loop target")
	}
	if !p.skipName("in") {
		return nil, p.unexpected("in")
	}
	if n.over, err = p.code(func() (expr, error) { return p.tuple(tupleRules{end: "recursive"}) }); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if n.test, err = p.code(p.expression); err != nil {
			return nil, err
		}
	}
	n.recursive = p.skipName("recursive")
	names := len(p.names)
	p.loops++
	var end string
	n.body, end, err = p.inner("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	for _, name := range p.names[names:] {
		if name.name == "loop" {
			n.extended = true
			if name.written {
				return nil, syntaxError(line, "can't assign to special loop variable in for-loop")
			}
		}
	}
	if end == "else" {
		n.otherwise, _, err = p.inner("endfor")
	}
	n.extended = n.extended || n.recursive
	return n, err
}

func (p *parser) leaveLoop(line int) (stmt, error) {
	word := p.tokens[p.at-1].text
	if p.loops == 0 {
		return nil, syntaxError(line, "'%s' outside loop", word)
	}
	if word == "break" {
		return leaveNode(flowBreak), nil
	}
	return leaveNode(flowContinue), nil
}

func (p *parser) with(line int) (stmt, error) {
	n := &withNode{line: line}
	for p.peek().kind != tokenBlockEnd {
		if len(n.targets) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		to, err := p.target("", false)
		if err != nil {
			return nil, err
		}
		if err := p.expect("="); err != nil {
			return nil, err
		}
		value, err := p.code(p.expression)
		if err != nil {
			return nil, err
		}
		n.targets, n.values = append(n.targets, to), append(n.values, value)
	}
	var err error
	n.body, _, err = p.inner("endwith")
	return n, err
}

func (p *parser) printTag(line int) (stmt, error) {
	n := &sequenceNode{}
	for p.peek().kind != tokenBlockEnd {
		if len(n.body) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		c, err := p.code(p.expression)
		if err != nil {
			return nil, err
		}
		n.body = append(n.body, &printNode{c, line})
	}
	return n, nil
}

func (p *parser) filterBlock(line int) (stmt, error) {
	n := &filterBlockNode{line: line}
	p.height = 0
	var err error
	n.filter, err = p.code(func() (expr, error) {
		var e expr
		for first := true; first || p.skip("|"); first = false {
			f, err := p.filter(e)
			if err != nil {
				return nil, err
			}
			e = f
		}
		return e, nil
	})
	if err != nil {
		return nil, err
	}
	n.body, _, err = p.inner("endfilter")
	return n, err
}
