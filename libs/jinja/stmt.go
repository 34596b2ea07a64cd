package jinja

// stmt is a node of the program that writes or assigns.
type stmt interface {
	// declare notes in the scope around it which names the statement reads and assigns there.
	declare(s *scope)
	// bind resolves its names, and compiles the scopes within.
	bind(s *scope)
	exec(f *frame) (flow, error)
}

// flow is how a statement ends.
type flow uint8

const (
	flowOn flow = iota
	flowBreak
	flowContinue
)

func declareAll(s *scope, body []stmt) {
	for _, n := range body {
		n.declare(s)
	}
}

func bindAll(s *scope, body []stmt) {
	for _, n := range body {
		n.bind(s)
	}
}

func execAll(f *frame, body []stmt) (flow, error) {
	for _, n := range body {
		if how, err := n.exec(f); how != flowOn || err != nil {
			return how, err
		}
	}
	return flowOn, nil
}

// eval is the value of an expression in a statement, which it pays for.
func (c code) eval(f *frame, line int) (Value, error) {
	if err := f.st.step(c.cost); err != nil {
		return Value{}, atLine(line, err)
	}
	v, err := c.expr.eval(f)
	if err != nil {
		return Value{}, atLine(line, err)
	}
	return v, nil
}

// dataNode is text of the template.
type dataNode struct {
	text string
	cost int
}

func (n *dataNode) declare(*scope) {}
func (n *dataNode) bind(*scope)    {}

func (n *dataNode) exec(f *frame) (flow, error) {
	if err := f.st.step(n.cost); err != nil {
		return flowOn, err
	}
	return flowOn, f.st.out.write(n.text, false)
}

// printNode is {{ … }}.
type printNode struct {
	code
	line int
}

func (n *printNode) declare(s *scope) { s.loads(n.code) }
func (n *printNode) bind(s *scope)    { s.bind(n.code) }

func (n *printNode) exec(f *frame) (flow, error) {
	if p, ok := n.expr.(printer); ok {
		if err := f.st.step(n.cost); err != nil {
			return flowOn, atLine(n.line, err)
		}
		return flowOn, atLine(n.line, p.print(f))
	}
	v, err := n.code.eval(f, n.line)
	if err != nil {
		return flowOn, err
	}
	if err := f.st.out.value(v); err != nil {
		return flowOn, atLine(n.line, err)
	}
	return flowOn, nil
}

// sequenceNode is several statements in the place of one.
type sequenceNode struct{ body []stmt }

func (n *sequenceNode) declare(s *scope)            { declareAll(s, n.body) }
func (n *sequenceNode) bind(s *scope)               { bindAll(s, n.body) }
func (n *sequenceNode) exec(f *frame) (flow, error) { return execAll(f, n.body) }

// leaveNode is break or continue.
type leaveNode flow

func (n leaveNode) declare(*scope)              {}
func (n leaveNode) bind(*scope)                 {}
func (n leaveNode) exec(f *frame) (flow, error) { return flow(n), f.st.step(1) }

// ifNode is if with its elifs and else. It opens no scope.
type ifNode struct {
	branches  []branch
	otherwise []stmt
}

type branch struct {
	test code
	body []stmt
	line int
}

func (n *ifNode) declare(s *scope) {
	s.loads(n.branches[0].test)
	s.branches(
		func() { declareAll(s, n.branches[0].body) },
		func() {
			for _, b := range n.branches[1:] {
				s.loads(b.test)
				s.branches(func() { declareAll(s, b.body) })
			}
		},
		func() { declareAll(s, n.otherwise) },
	)
}

func (n *ifNode) bind(s *scope) {
	for _, b := range n.branches {
		s.bind(b.test)
		bindAll(s, b.body)
	}
	bindAll(s, n.otherwise)
}

func (n *ifNode) exec(f *frame) (flow, error) {
	for i := range n.branches {
		b := &n.branches[i]
		v, err := b.test.eval(f, b.line)
		if err != nil {
			return flowOn, err
		}
		if v.truth() {
			return execAll(f, b.body)
		}
	}
	return execAll(f, n.otherwise)
}

// withNode opens a scope.
type withNode struct {
	targets []target
	values  []code
	body    []stmt
	starts  []start
	line    int
}

func (n *withNode) declare(s *scope) {
	for _, v := range n.values {
		s.loads(v)
	}
}

func (n *withNode) bind(s *scope) {
	inner := s.inner()
	for _, t := range n.targets {
		t.parameters(inner)
	}
	declareAll(inner, n.body)
	n.starts = inner.enter()
	for i := range n.targets {
		n.targets[i].bind(inner)
		s.bind(n.values[i])
	}
	bindAll(inner, n.body)
}

func (n *withNode) exec(f *frame) (flow, error) {
	f.enter(n.starts)
	for i := range n.targets {
		v, err := n.values[i].eval(f, n.line)
		if err != nil {
			return flowOn, err
		}
		if err := n.targets[i].assign(f, v); err != nil {
			return flowOn, atLine(n.line, err)
		}
	}
	return execAll(f, n.body)
}
