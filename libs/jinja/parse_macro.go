package jinja

// function reads the body of what runs as a function of its own, and finds out
// which of the special variables it uses.
func (p *parser) function(m *macroNode, end string) (err error) {
	names, loops := len(p.names), p.loops
	p.loops = 0 // a break cannot leave a function
	m.body, _, err = p.inner(end)
	p.loops = loops
	if err != nil {
		return err
	}
	written := map[string]bool{}
	for _, n := range p.names[names:] {
		switch {
		case n.written:
			written[n.name] = true
		case written[n.name]:
		case n.name == "caller":
			m.usesCaller = true
		case n.name == "kwargs":
			m.usesNamed = true
		case n.name == "varargs":
			m.usesMore = true
		}
	}
	return p.special(m)
}

// special settles what becomes of parameters that have the name of a special variable.
func (p *parser) special(m *macroNode) error {
	for i, param := range m.params {
		switch param.name {
		case "caller":
			if m.usesCaller && i < len(m.params)-len(m.defaults) {
				return syntaxError(m.line, `when defining macros or call blocks the special "caller" argument must be omitted or be given a default`)
			}
			m.explicitCaller = true
		case "kwargs":
			m.usesNamed = false
		case "varargs":
			m.usesMore = false
		}
	}
	return nil
}

func (p *parser) signature(m *macroNode) error {
	if err := p.expect("("); err != nil {
		return err
	}
	for !p.peek().is(")") {
		if len(m.params) > 0 {
			if err := p.expect(","); err != nil {
				return err
			}
		}
		line := p.peek().line
		to, err := p.oneTarget(false)
		if err != nil {
			return err
		}
		if to.name == nil {
			return syntaxError(line, "a parameter must be a name")
		}
		for _, other := range m.params {
			if other.name == to.name.name {
				return syntaxError(line, "duplicate argument %s in function definition", quote(other.name))
			}
		}
		m.params = append(m.params, param{name: to.name.name})
		if p.skip("=") {
			c, err := p.code(p.expression)
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, c)
		} else if len(m.defaults) > 0 {
			return syntaxError(line, "non-default argument follows default argument")
		}
	}
	return p.expect(")")
}

func (p *parser) macro(line int) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	m := &macroNode{name: name, line: line}
	to := &nameNode{name: name, written: true}
	p.names = append(p.names, to)
	if err := p.signature(m); err != nil {
		return nil, err
	}
	return &macroDefNode{m, target{name: to}}, p.function(m, "endmacro")
}

func (p *parser) callBlock(line int) (stmt, error) {
	n := &callBlockNode{caller: &macroNode{line: line}, line: line}
	if p.peek().is("(") {
		if err := p.signature(n.caller); err != nil {
			return nil, err
		}
	}
	var err error
	if n.call, err = p.code(p.expression); err != nil {
		return nil, err
	}
	if _, ok := n.call.expr.(*callNode); !ok {
		return nil, syntaxError(line, "expected call")
	}
	return n, p.function(n.caller, "endcall")
}

// generation reads the tag by which training data is marked. Its body runs as a call
// block does, with variables of its own.
func (p *parser) generation(line int) (stmt, error) {
	n := &generationNode{&macroNode{line: line}, line}
	return n, p.function(n.body, "endgeneration")
}
