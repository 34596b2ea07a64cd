package jinja

// args are the arguments of a call. Whoever is called must not keep them: their
// memory serves the next call.
type args struct {
	plain []Value
	named []namedValue
}

type namedValue struct {
	name  string
	value Value
	prov  prov // of the name, which **kwargs may bring from the chat
}

// key is the name as the key of a dict.
func (n namedValue) key() Value { return Value{kind: kindString, str: n.name, prov: n.prov} }

// arguments are those of a call in the program.
type arguments struct {
	plain     []expr
	named     []namedArgument
	more      expr // *args
	moreNamed expr // **kwargs
}

type namedArgument struct {
	name string
	e    expr
}

// evalTo evaluates arguments onto the state's stack, where the caller of evalTo takes
// them off again.
func (a *arguments) evalTo(f *frame) (args, error) {
	st := f.st
	base := len(st.args)
	for _, e := range a.plain {
		v, err := e.eval(f)
		if err != nil {
			return args{}, err
		}
		st.args = append(st.args, v)
	}
	var out args
	for _, n := range a.named {
		v, err := n.e.eval(f)
		if err != nil {
			return args{}, err
		}
		out.named = append(out.named, namedValue{name: n.name, value: v})
	}
	if a.more != nil {
		if err := a.evalMore(f); err != nil {
			return args{}, err
		}
	}
	if a.moreNamed != nil {
		if err := a.evalMoreNamed(f, &out); err != nil {
			return args{}, err
		}
	}
	out.plain = st.args[base:len(st.args):len(st.args)]
	return out, nil
}

func (a *arguments) evalMore(f *frame) error {
	v, err := a.more.eval(f)
	if err != nil {
		return err
	}
	items, err := f.st.list(v)
	if err != nil {
		return err
	}
	if err := f.st.allocValues(2 * len(items)); err != nil {
		return err
	}
	f.st.args = append(f.st.args, items...)
	return nil
}

func (a *arguments) evalMoreNamed(f *frame, out *args) error {
	v, err := a.moreNamed.eval(f)
	if err != nil {
		return err
	}
	if v.kind != kindDict {
		return typeErrorf("argument after ** must be a mapping, not %s", v.typeName())
	}
	entries := v.ref.(*dict).entries
	if err := f.st.allocValues(4 * len(entries)); err != nil {
		return err
	}
	for _, e := range entries {
		if !e.key.isString() {
			return typeError("keywords must be strings")
		}
		for _, n := range a.named {
			if n.name == e.key.str {
				return typeErrorf("got multiple values for keyword argument %s", quote(n.name))
			}
		}
		out.named = append(out.named, namedValue{e.key.str, e.value, e.key.prov.join(ofTemplate)})
	}
	return nil
}

// callNode is f(…).
type callNode struct {
	of        expr
	arguments arguments
}

func (n *callNode) eval(f *frame) (Value, error) { return n.run(f, Value{}) }

// run calls, with the body of a call block as another argument if there is one.
func (n *callNode) run(f *frame, body Value) (Value, error) {
	st := f.st
	if err := st.step(1); err != nil {
		return Value{}, err
	}
	var self Value
	var fn Value
	var direct *builtin
	var err error
	if a, ok := n.of.(*attrNode); ok {
		// A method that is called at once need not become a value first.
		if self, err = a.of.eval(f); err != nil {
			return Value{}, err
		}
		if direct = a.method(self); direct == nil {
			fn, err = st.attrOf(a, self)
		}
	} else {
		fn, err = n.of.eval(f)
	}
	if err != nil {
		return Value{}, err
	}
	base := len(st.args)
	defer func() { st.args = st.args[:base] }()
	a, err := n.arguments.evalTo(f)
	if err != nil {
		return Value{}, err
	}
	if body.given() {
		a.named = append(a.named, namedValue{name: "caller", value: body})
	}
	if direct != nil {
		return direct.call(st, self, a)
	}
	return st.call(fn, a)
}

// call calls a value.
func (st *state) call(fn Value, a args) (Value, error) {
	switch fn.kind {
	case kindFunc:
		b := fn.ref.(*bound)
		return b.fn.call(st, b.self, a)
	case kindObject:
		if c, ok := fn.ref.(caller); ok {
			return c.call(st, a)
		}
	case kindUndefined, kindMissing:
		return Value{}, useOf(fn)
	}
	return Value{}, typeErrorf("'%s' object is not callable", fn.typeName())
}

// filterNode is a|f.
type filterNode struct {
	of        expr // nil in the filters of a block, for its text
	name      string
	fn        *builtin // nil if there is no such filter
	arguments arguments
}

func (n *filterNode) eval(f *frame) (Value, error) {
	v, err := n.of.eval(f)
	if err != nil {
		return Value{}, err
	}
	return n.run(f, v)
}

// apply filters the text of a block.
func (n *filterNode) apply(f *frame, text Value) (Value, error) {
	if n.of != nil {
		var err error
		if text, err = n.of.(*filterNode).apply(f, text); err != nil {
			return Value{}, err
		}
	}
	return n.run(f, text)
}

func (n *filterNode) run(f *frame, v Value) (Value, error) {
	if n.fn == nil {
		return Value{}, &pythonError{"TemplateRuntimeError", "No filter named " + quote(n.name) + " found."}
	}
	base := len(f.st.args)
	defer func() { f.st.args = f.st.args[:base] }()
	a, err := n.arguments.evalTo(f)
	if err != nil {
		return Value{}, err
	}
	return n.fn.call(f.st, v, a)
}

// testNode is a is t.
type testNode struct {
	of        expr
	name      string
	fn        *builtin
	arguments arguments
	negated   bool
}

func (n *testNode) eval(f *frame) (Value, error) {
	v, err := n.of.eval(f)
	if err != nil {
		return Value{}, err
	}
	if n.fn == nil {
		return Value{}, &pythonError{"TemplateRuntimeError", "No test named " + quote(n.name) + " found."}
	}
	base := len(f.st.args)
	defer func() { f.st.args = f.st.args[:base] }()
	a, err := n.arguments.evalTo(f)
	if err != nil {
		return Value{}, err
	}
	v, err = n.fn.call(f.st, v, a)
	if err != nil {
		return Value{}, err
	}
	if n.negated {
		return Bool(!v.truth()), nil
	}
	return v, nil
}
