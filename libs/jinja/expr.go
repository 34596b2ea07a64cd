package jinja

// expr is a node of the program that has a value.
type expr interface {
	eval(f *frame) (Value, error)
}

type constNode struct{ v Value }

func (n *constNode) eval(*frame) (Value, error) { return n.v, nil }

// nameNode is a variable, read or, in a target, written.
type nameNode struct {
	name      string
	written   bool
	ref       ref
	undefined *undefined // what it is if it is not defined
}

func (n *nameNode) eval(f *frame) (Value, error) {
	var v Value
	switch n.ref.up {
	case 0:
		v = f.slots[n.ref.index]
	case upGlobal:
		v = f.st.globals[n.ref.index]
	default:
		v = f.load(n.ref)
	}
	if v.kind == kindMissing {
		return Value{kind: kindUndefined, ref: n.undefined}, nil
	}
	return v, nil
}

// listNode is [a, b] or (a, b).
type listNode struct {
	items []expr
	tuple bool
}

func (n *listNode) eval(f *frame) (Value, error) {
	if err := f.st.allocValues(len(n.items) + 1); err != nil {
		return Value{}, err
	}
	items := make([]Value, len(n.items))
	for i, e := range n.items {
		v, err := e.eval(f)
		if err != nil {
			return Value{}, err
		}
		items[i] = v
	}
	if n.tuple {
		return tuple(items...), nil
	}
	return List(items), nil
}

type dictNode struct{ keys, values []expr }

func (n *dictNode) eval(f *frame) (Value, error) {
	if err := f.st.alloc(2 * valueBytes); err != nil {
		return Value{}, err
	}
	d := &dict{}
	for i := range n.keys {
		key, err := n.keys[i].eval(f)
		if err != nil {
			return Value{}, err
		}
		v, err := n.values[i].eval(f)
		if err != nil {
			return Value{}, err
		}
		if err := d.put(f.st, key, v); err != nil {
			return Value{}, err
		}
	}
	return Value{kind: kindDict, ref: d}, nil
}

// condNode is a if b else c. Without else it may be undefined.
type condNode struct {
	then, test, otherwise expr
	line                  int
}

func (n *condNode) eval(f *frame) (Value, error) {
	test, err := n.test.eval(f)
	if err != nil {
		return Value{}, err
	}
	switch {
	case test.truth():
		return n.then.eval(f)
	case n.otherwise == nil:
		line := Int(int64(n.line)).plain()
		return hinted("the inline if-expression on line " + line + " evaluated to false and no else section was defined."), f.st.alloc(4 * valueBytes)
	}
	return n.otherwise.eval(f)
}

type orNode struct{ l, r expr }

func (n *orNode) eval(f *frame) (Value, error) {
	v, err := n.l.eval(f)
	if err != nil || v.truth() {
		return v, err
	}
	return n.r.eval(f)
}

type andNode struct{ l, r expr }

func (n *andNode) eval(f *frame) (Value, error) {
	v, err := n.l.eval(f)
	if err != nil || !v.truth() {
		return v, err
	}
	return n.r.eval(f)
}

type notNode struct{ e expr }

func (n *notNode) eval(f *frame) (Value, error) {
	v, err := n.e.eval(f)
	return Bool(!v.truth()), err
}

type signNode struct {
	minus bool
	e     expr
}

func (n *signNode) eval(f *frame) (Value, error) {
	v, err := n.e.eval(f)
	if err != nil {
		return Value{}, err
	}
	return sign(v, n.minus)
}

type binaryNode struct {
	op   string
	fn   binaryOp
	l, r expr
}

func (n *binaryNode) eval(f *frame) (Value, error) {
	l, err := n.l.eval(f)
	if err != nil {
		return Value{}, err
	}
	r, err := n.r.eval(f)
	if err != nil {
		return Value{}, err
	}
	return n.fn(f.st, l, r)
}

type compareNode struct {
	l, r expr
	how  comparison
}

func (n *compareNode) eval(f *frame) (Value, error) {
	l, err := n.l.eval(f)
	if err != nil {
		return Value{}, err
	}
	r, err := n.r.eval(f)
	if err != nil {
		return Value{}, err
	}
	ok, err := f.st.compare(n.how, l, r)
	return Bool(ok), err
}

// chainNode is a < b < c: each operand is evaluated once, and none after one that fails.
type chainNode struct {
	first    expr
	operands []operand
}

type operand struct {
	how comparison
	e   expr
}

func (n *chainNode) eval(f *frame) (Value, error) {
	l, err := n.first.eval(f)
	if err != nil {
		return Value{}, err
	}
	for _, o := range n.operands {
		r, err := o.e.eval(f)
		if err != nil {
			return Value{}, err
		}
		ok, err := f.st.compare(o.how, l, r)
		if err != nil || !ok {
			return Bool(false), err
		}
		l = r
	}
	return Bool(true), nil
}
