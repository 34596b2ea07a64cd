package jinja

// macroNode is the body of a macro, of a call block, or of generation.
type macroNode struct {
	name     string // empty for a body without one
	params   []param
	defaults []code // of the last parameters
	body     []stmt
	line     int

	// Which of the special variables the body uses.
	usesCaller, usesNamed, usesMore bool
	explicitCaller                  bool // caller is a parameter

	fn                  *function
	starts              []start
	caller, named, more ref
}

type param struct {
	name string
	ref  ref
}

func (m *macroNode) bind(s *scope) {
	inner := s.innerFunction()
	m.fn = inner.fn
	for i := range m.params {
		m.params[i].ref = inner.parameter(m.params[i].name)
	}
	if m.usesCaller && !m.explicitCaller {
		m.caller = inner.parameter("caller")
	}
	if m.usesNamed {
		m.named = inner.parameter("kwargs")
	}
	if m.usesMore {
		m.more = inner.parameter("varargs")
	}
	for _, d := range m.defaults {
		inner.loads(d)
	}
	declareAll(inner, m.body)
	m.starts = inner.enter()
	for _, d := range m.defaults {
		inner.bind(d)
	}
	bindAll(inner, m.body)
}

// macro is a macro with the variables around it.
type macro struct {
	n     *macroNode
	outer *frame
}

var (
	_ object = (*macro)(nil)
	_ caller = (*macro)(nil)
)

func (*macro) typeName() string { return "Macro" }
func (*macro) module() string   { return "jinja2.runtime" }

func (m *macro) attr(st *state, name string) (Value, bool, error) {
	switch name {
	case "name":
		if m.n.name == "" {
			return None(), true, nil
		}
		return String(m.n.name), true, nil
	case "arguments":
		names := make([]Value, len(m.n.params))
		for i, p := range m.n.params {
			names[i] = String(p.name)
		}
		return tuple(names...), true, st.allocValues(len(names))
	case "catch_kwargs":
		return Bool(m.n.usesNamed), true, nil
	case "catch_varargs":
		return Bool(m.n.usesMore), true, nil
	case "caller":
		return Bool(m.n.usesCaller), true, nil
	}
	return Value{}, false, nil
}

func (m *macro) repr(b *builder, _ int) error {
	if m.n.name == "" {
		return b.glue("<Macro anonymous>")
	}
	return b.glue("<Macro " + quote(m.n.name) + ">")
}

func (m *macro) call(st *state, a args) (Value, error) {
	if err := st.enter(); err != nil {
		return Value{}, err
	}
	defer st.leave()
	f, err := st.newFrame(m.n.fn, m.outer)
	if err != nil {
		return Value{}, err
	}
	if err := m.n.take(f, a); err != nil {
		return Value{}, err
	}
	f.enter(m.n.starts)
	if err := m.n.fillIn(f); err != nil {
		return Value{}, err
	}
	text, _, err := st.capture(func() (flow, error) { return execAll(f, m.n.body) })
	return text, err
}

// take puts arguments where they belong, as Macro.__call__ of Jinja does.
func (m *macroNode) take(f *frame, a args) error {
	used := make([]bool, len(a.named))
	foundCaller := m.explicitCaller && len(a.plain) >= len(m.params)
	for i, p := range m.params {
		if i < len(a.plain) {
			f.slots[p.ref.index] = a.plain[i]
			continue
		}
		foundCaller = foundCaller || p.name == "caller"
		for j, n := range a.named {
			if n.name == p.name {
				f.slots[p.ref.index], used[j] = n.value, true
			}
		}
	}
	if m.usesCaller && !foundCaller {
		f.slots[m.caller.index] = m.callerOf(a, used)
	}
	if err := m.takeNamed(f, a, used); err != nil {
		return err
	}
	more := a.plain[min(len(a.plain), len(m.params)):]
	if m.usesMore {
		if err := f.st.allocValues(len(more)); err != nil {
			return err
		}
		f.slots[m.more.index] = tuple(append([]Value(nil), more...)...)
	} else if len(more) > 0 {
		return typeErrorf("macro %s takes not more than %d argument(s)", m.quotedName(), len(m.params))
	}
	return nil
}

func (m *macroNode) quotedName() string {
	if m.name == "" {
		return "None"
	}
	return quote(m.name)
}

func (m *macroNode) callerOf(a args, used []bool) Value {
	for j, n := range a.named {
		if n.name == "caller" && !used[j] {
			used[j] = true
			if !n.value.isNone() {
				return n.value
			}
		}
	}
	return hinted("No caller defined")
}

func (m *macroNode) takeNamed(f *frame, a args, used []bool) error {
	rest := &dict{}
	for j, n := range a.named {
		if used[j] {
			continue
		}
		if !m.usesNamed {
			if n.name == "caller" {
				return typeErrorf("macro %s was invoked with two values for the special caller argument. This is most likely a bug.", m.quotedName())
			}
			return typeErrorf("macro %s takes no keyword argument %s", m.quotedName(), quote(n.name))
		}
		if err := rest.put(f.st, n.key(), n.value); err != nil {
			return err
		}
	}
	if m.usesNamed {
		f.slots[m.named.index] = Value{kind: kindDict, ref: rest}
	}
	return nil
}

// fillIn evaluates the defaults of parameters that were not given.
func (m *macroNode) fillIn(f *frame) error {
	for i, p := range m.params {
		if f.slots[p.ref.index].given() {
			continue
		}
		d := i - (len(m.params) - len(m.defaults))
		if d < 0 {
			f.slots[p.ref.index] = hinted("parameter " + quote(p.name) + " was not provided")
			continue
		}
		v, err := m.defaults[d].eval(f, m.line)
		if err != nil {
			return err
		}
		f.slots[p.ref.index] = v
	}
	return nil
}

// macroDefNode is {% macro … %}.
type macroDefNode struct {
	m  *macroNode
	to target
}

func (n *macroDefNode) declare(s *scope) { n.to.declare(s) }

func (n *macroDefNode) bind(s *scope) {
	n.m.bind(s)
	n.to.bind(s)
}

func (n *macroDefNode) exec(f *frame) (flow, error) {
	if err := f.st.alloc(2 * valueBytes); err != nil {
		return flowOn, err
	}
	return flowOn, n.to.assign(f, objectValue(&macro{n.m, f}))
}

// callBlockNode is {% call m() %} … {% endcall %}.
type callBlockNode struct {
	call   code
	caller *macroNode
	line   int
}

func (n *callBlockNode) declare(s *scope) { s.loads(n.call) }

func (n *callBlockNode) bind(s *scope) {
	s.bind(n.call)
	n.caller.bind(s)
}

func (n *callBlockNode) exec(f *frame) (flow, error) {
	if err := f.st.step(n.call.cost + 1); err != nil {
		return flowOn, atLine(n.line, err)
	}
	v, err := n.call.expr.(*callNode).run(f, objectValue(&macro{n.caller, f}))
	if err != nil {
		return flowOn, atLine(n.line, err)
	}
	return flowOn, atLine(n.line, writeBlock(f, v))
}

// generationNode is {% generation %} … {% endgeneration %}.
type generationNode struct {
	body *macroNode
	line int
}

func (n *generationNode) declare(*scope) {}
func (n *generationNode) bind(s *scope)  { n.body.bind(s) }

func (n *generationNode) exec(f *frame) (flow, error) {
	v, err := (&macro{n.body, f}).call(f.st, args{})
	if err != nil {
		return flowOn, atLine(n.line, err)
	}
	return flowOn, f.st.out.text(v)
}
