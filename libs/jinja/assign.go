package jinja

// target is what is assigned to: a name, an attribute of a namespace, or several.
type target struct {
	name  *nameNode
	attr  string
	items []target
}

func (t target) declare(s *scope) {
	switch {
	case t.name == nil:
		for _, item := range t.items {
			item.declare(s)
		}
	case t.attr != "":
		s.load(t.name.name)
	default:
		s.store(t.name.name)
	}
}

// has reports whether a name is among those assigned to.
func (t target) has(name string) bool {
	for _, item := range t.items {
		if item.has(name) {
			return true
		}
	}
	return t.name != nil && t.attr == "" && t.name.name == name
}

// parameters declares the names as given to the scope from outside.
func (t target) parameters(s *scope) {
	if t.name != nil {
		s.parameter(t.name.name)
	}
	for _, item := range t.items {
		item.parameters(s)
	}
}

func (t target) bind(s *scope) {
	if t.name != nil {
		s.bindName(t.name)
	}
	for _, item := range t.items {
		item.bind(s)
	}
}

// check refuses attributes of what is no namespace. Jinja does that before it looks at the
// value.
func (t target) check(f *frame) error {
	for _, item := range t.items {
		if err := item.check(f); err != nil {
			return err
		}
	}
	if t.attr == "" {
		return nil
	}
	v := f.load(t.name.ref)
	if v.kind == kindObject {
		if _, ok := v.ref.(*namespace); ok {
			return nil
		}
	}
	return &pythonError{"TemplateRuntimeError", "cannot assign attribute on non-namespace object"}
}

func (t target) assign(f *frame, v Value) error {
	switch {
	case t.name == nil:
		return t.unpack(f, v)
	case t.attr != "":
		ns := f.load(t.name.ref).ref.(*namespace)
		return ns.d.put(f.st, String(t.attr), v)
	}
	f.slots[t.name.ref.index] = v
	return nil
}

func (t target) unpack(f *frame, v Value) error {
	it, err := f.st.iterate(v)
	if err != nil {
		if v.kind == kindUndefined {
			return err
		}
		return typeErrorf("cannot unpack non-iterable %s object", v.typeName())
	}
	values := make([]Value, 0, len(t.items))
	for {
		item, ok, err := it.next(f.st)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if len(values) == len(t.items) {
			return valueErrorf("too many values to unpack (expected %d)", len(t.items))
		}
		values = append(values, item)
	}
	if len(values) < len(t.items) {
		return valueErrorf("not enough values to unpack (expected %d, got %d)", len(t.items), len(values))
	}
	for i, item := range t.items {
		if err := item.assign(f, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// setNode is {% set a = b %}.
type setNode struct {
	to    target
	value code
	line  int
}

func (n *setNode) declare(s *scope) {
	s.loads(n.value)
	n.to.declare(s)
}

func (n *setNode) bind(s *scope) {
	s.bind(n.value)
	n.to.bind(s)
}

func (n *setNode) exec(f *frame) (flow, error) {
	if err := n.to.check(f); err != nil {
		return flowOn, atLine(n.line, err)
	}
	v, err := n.value.eval(f, n.line)
	if err != nil {
		return flowOn, err
	}
	return flowOn, atLine(n.line, n.to.assign(f, v))
}

// setBlockNode is {% set a %} … {% endset %}.
type setBlockNode struct {
	to     target
	filter code // its innermost operand is nil: the text
	body   []stmt
	starts []start
	line   int
}

func (n *setBlockNode) declare(s *scope) { n.to.declare(s) }

func (n *setBlockNode) bind(s *scope) {
	inner := s.inner()
	if n.filter.expr != nil {
		inner.loads(n.filter)
	}
	declareAll(inner, n.body)
	n.starts = inner.enter()
	if n.filter.expr != nil {
		inner.bind(n.filter)
	}
	bindAll(inner, n.body)
	n.to.bind(s)
}

func (n *setBlockNode) exec(f *frame) (flow, error) {
	f.enter(n.starts)
	v, how, err := captureBlock(f, n.body, n.filter, n.line)
	if how != flowOn || err != nil {
		return how, err
	}
	if err := n.to.check(f); err != nil {
		return flowOn, atLine(n.line, err)
	}
	return flowOn, atLine(n.line, n.to.assign(f, v))
}

// captureBlock is the text that a body writes, through a filter.
func captureBlock(f *frame, body []stmt, filter code, line int) (Value, flow, error) {
	v, how, err := f.st.capture(func() (flow, error) { return execAll(f, body) })
	if how != flowOn || err != nil {
		return v, how, err
	}
	v, err = filterText(f, filter, v)
	return v, flowOn, atLine(line, err)
}

// filterBlockNode is {% filter f %} … {% endfilter %}.
type filterBlockNode struct {
	filter code
	body   []stmt
	starts []start
	line   int
}

func (n *filterBlockNode) declare(s *scope) { s.loads(n.filter) }

func (n *filterBlockNode) bind(s *scope) {
	inner := s.inner()
	declareAll(inner, n.body)
	n.starts = inner.enter()
	inner.bind(n.filter)
	bindAll(inner, n.body)
}

func (n *filterBlockNode) exec(f *frame) (flow, error) {
	f.enter(n.starts)
	v, how, err := captureBlock(f, n.body, n.filter, n.line)
	if how != flowOn || err != nil {
		return how, err
	}
	return flowOn, atLine(n.line, writeBlock(f, v))
}

// writeBlock writes what a block is turned into, which Jinja wants to be a string.
func writeBlock(f *frame, v Value) error {
	if !v.isString() {
		return typeErrorf("sequence item 0: expected str instance, %s found", v.typeName())
	}
	return f.st.out.text(v)
}

// filterText applies the filters of a block to its text.
func filterText(f *frame, filter code, text Value) (Value, error) {
	if filter.expr == nil {
		return text, nil
	}
	if err := f.st.step(filter.cost); err != nil {
		return Value{}, err
	}
	return filter.expr.(*filterNode).apply(f, text)
}
