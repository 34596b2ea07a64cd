package jinja

import "fmt"

// forNode is a for loop.
type forNode struct {
	to        target
	over      code
	test      code // its expr is nil if there is none
	body      []stmt
	otherwise []stmt
	recursive bool
	extended  bool // the body uses the variable loop
	line      int

	fn         *function // of a recursive loop
	loopVar    ref
	starts     []start
	testTo     target // to, in the scope of the test
	testStarts []start
	elseStarts []start
}

func (n *forNode) declare(s *scope) { s.loads(n.over) }

func (n *forNode) bind(s *scope) {
	s.bind(n.over)
	outer := s
	if n.recursive {
		outer = s.innerFunction() // whose only content are the scopes of the loop
		n.fn = outer.fn
	}
	inner := outer.inner()
	if n.extended {
		n.loopVar = inner.parameter("loop")
	}
	n.to.parameters(inner)
	declareAll(inner, n.body)
	n.starts = inner.enter()
	n.to.bind(inner)
	if n.test.expr != nil {
		n.bindTest(outer)
	}
	bindAll(inner, n.body)
	orElse := outer.inner()
	declareAll(orElse, n.otherwise)
	n.elseStarts = orElse.enter()
	bindAll(orElse, n.otherwise)
}

// bindTest gives the test variables of its own: it runs ahead of the body.
func (n *forNode) bindTest(outer *scope) {
	s := outer.inner()
	n.testTo = n.to.copy()
	n.testTo.parameters(s)
	s.loads(n.test)
	n.testStarts = s.enter()
	n.testTo.bind(s)
	s.bind(n.test)
}

func (t target) copy() target {
	if t.name != nil {
		name := *t.name
		t.name = &name
	}
	items := t.items
	t.items = nil
	for _, item := range items {
		t.items = append(t.items, item.copy())
	}
	return t
}

func (n *forNode) exec(f *frame) (flow, error) {
	over, err := n.over.eval(f, n.line)
	if err != nil {
		return flowOn, err
	}
	if !n.recursive {
		return n.run(f, over, nil)
	}
	text, err := n.recurse(f, over, 0)
	if err != nil {
		return flowOn, atLine(n.line, err)
	}
	return flowOn, atLine(n.line, f.st.out.value(text))
}

// recurse runs a recursive loop as the function that it is.
func (n *forNode) recurse(outer *frame, over Value, depth int) (Value, error) {
	st := outer.st
	if err := st.enter(); err != nil {
		return Value{}, err
	}
	defer st.leave()
	f, err := st.newFrame(n.fn, outer)
	if err != nil {
		return Value{}, err
	}
	text, _, err := st.capture(func() (flow, error) {
		return n.run(f, over, &recursion{n, outer, depth})
	})
	return text, err
}

// recursion is what loop(…) needs to run the loop again.
type recursion struct {
	n     *forNode
	outer *frame
	depth int
}

const loopBytes = 400 // of memory

func (n *forNode) run(f *frame, over Value, again *recursion) (flow, error) {
	it, err := f.st.iterate(over)
	if err == nil {
		err = f.st.alloc(loopBytes)
	}
	if err != nil {
		return flowOn, atLine(n.line, err)
	}
	if n.test.expr != nil {
		it = &testedIter{n, f, it}
		over = Value{}
	}
	l := &loop{it: it, index0: -1, again: again}
	passed := false
	for {
		item, ok, err := l.advance(f.st)
		if err != nil {
			return flowOn, atLine(n.line, err)
		}
		if !ok {
			break
		}
		passed = true
		how, err := n.pass(f, l, item)
		if err != nil {
			return flowOn, err
		}
		if how == flowBreak {
			return flowOn, nil
		}
	}
	if passed || n.otherwise == nil {
		return flowOn, nil
	}
	f.enter(n.elseStarts)
	return execAll(f, n.otherwise)
}

// pass runs the body once.
func (n *forNode) pass(f *frame, l *loop, item Value) (flow, error) {
	if err := f.st.step(1); err != nil {
		return flowOn, atLine(n.line, err)
	}
	if n.to.name != nil {
		f.slots[n.to.name.ref.index] = item
	} else if err := n.to.assign(f, item); err != nil {
		return flowOn, atLine(n.line, err)
	}
	if n.extended {
		f.slots[n.loopVar.index] = objectValue(l)
	}
	f.enter(n.starts)
	return execAll(f, n.body)
}

// testedIter passes on what the test of a loop accepts. It looks no further ahead than it
// is asked, since the body may change what the test sees.
type testedIter struct {
	n  *forNode
	f  *frame
	it iterator
}

func (t *testedIter) left() int { return -1 }

func (t *testedIter) next(st *state) (Value, bool, error) {
	for {
		item, ok, err := t.it.next(st)
		if !ok || err != nil {
			return Value{}, false, err
		}
		if err := t.n.testTo.assign(t.f, item); err != nil {
			return Value{}, false, err
		}
		t.f.enter(t.n.testStarts)
		v, err := t.n.test.eval(t.f, t.n.line)
		if err != nil {
			return Value{}, false, err
		}
		if v.truth() {
			return item, true, nil
		}
	}
}

// loop is the variable of that name.
type loop struct {
	it        iterator
	again     *recursion
	index0    int
	length    int // once it is known, else 0
	item      Value
	before    Value
	after     Value
	peeked    bool // after is the next item, or missing at the end
	changedTo []Value
	ever      bool // changed was called
}

var (
	_ object = (*loop)(nil)
	_ caller = (*loop)(nil)
)

func (*loop) typeName() string { return "LoopContext" }
func (*loop) module() string   { return "jinja2.runtime" }

func (l *loop) advance(st *state) (Value, bool, error) {
	next, err := l.peek(st)
	if err != nil || !next.given() {
		return Value{}, false, err
	}
	l.peeked = false
	l.index0++
	l.before, l.item = l.item, next
	return next, true, nil
}

func (l *loop) peek(st *state) (Value, error) {
	if l.peeked {
		return l.after, nil
	}
	v, ok, err := l.it.next(st)
	if err != nil {
		return Value{}, err
	}
	if !ok {
		v = Value{}
	}
	l.after, l.peeked = v, true
	return v, nil
}

// size counts the items, for which it must read them all if they do not know.
func (l *loop) size(st *state) (int, error) {
	if l.length > 0 {
		return l.length, nil
	}
	left := l.it.left()
	if left < 0 {
		items, err := st.collect(l.it)
		if err != nil {
			return 0, err
		}
		l.it, left = &listIter{items: items}, len(items)
	}
	l.length = l.index0 + 1 + left
	if l.peeked && l.after.given() {
		l.length++
	}
	return l.length, nil
}

func (l *loop) attr(st *state, name string) (Value, bool, error) {
	var v Value
	var err error
	switch name {
	case "previtem", "nextitem", "cycle", "changed":
		if err := st.alloc(4 * valueBytes); err != nil { // for a function, or for what is undefined
			return Value{}, false, err
		}
	}
	switch name {
	case "index":
		v = Int(int64(l.index0 + 1))
	case "index0":
		v = Int(int64(l.index0))
	case "first":
		v = Bool(l.index0 == 0)
	case "last":
		v, err = l.peek(st)
		v = Bool(!v.given())
	case "length", "revindex", "revindex0":
		v, err = l.counted(st, name)
	case "previtem":
		if v = l.before; l.index0 == 0 {
			v = hinted("there is no previous item")
		}
	case "nextitem":
		if v, err = l.peek(st); err == nil && !v.given() {
			v = hinted("there is no next item")
		}
	case "depth", "depth0":
		v = l.depth(name)
	case "cycle":
		v = method("cycle", l.cycle)
	case "changed":
		v = method("changed", l.changed)
	default:
		return Value{}, false, nil
	}
	return v, true, err
}

func hinted(hint string) Value { return Value{kind: kindUndefined, ref: &undefined{hint: hint}} }

func (l *loop) depth(name string) Value {
	depth := 0
	if l.again != nil {
		depth = l.again.depth
	}
	if name == "depth" {
		depth++
	}
	return Int(int64(depth))
}

func (l *loop) counted(st *state, name string) (Value, error) {
	n, err := l.size(st)
	switch name {
	case "revindex":
		n -= l.index0
	case "revindex0":
		n -= l.index0 + 1
	}
	return Int(int64(n)), err
}

func (l *loop) cycle(_ *state, a args) (Value, error) {
	if len(a.plain) == 0 {
		return Value{}, typeError("no items for cycling given")
	}
	return a.plain[l.index0%len(a.plain)], nil
}

func (l *loop) changed(st *state, a args) (Value, error) {
	same := l.ever && len(a.plain) == len(l.changedTo)
	for i := 0; same && i < len(a.plain); i++ {
		equal, err := st.equal(a.plain[i], l.changedTo[i], 0)
		if err != nil {
			return Value{}, err
		}
		same = equal
	}
	if same {
		return Bool(false), nil
	}
	if err := st.allocValues(len(a.plain)); err != nil {
		return Value{}, err
	}
	l.ever, l.changedTo = true, append([]Value(nil), a.plain...)
	return Bool(true), nil
}

// call runs a recursive loop over inner items.
func (l *loop) call(_ *state, a args) (Value, error) {
	if len(a.plain) != 1 || len(a.named) > 0 {
		return Value{}, typeError("loop takes one argument")
	}
	if l.again == nil {
		return Value{}, typeError("The loop must have the 'recursive' marker to be called recursively.")
	}
	return l.again.n.recurse(l.again.outer, a.plain[0], l.again.depth+1)
}

func (l *loop) repr(b *builder, _ int) error {
	n, err := l.size(b.st)
	if err != nil {
		return err
	}
	return b.glue(fmt.Sprintf("<LoopContext %d/%d>", l.index0+1, n))
}
