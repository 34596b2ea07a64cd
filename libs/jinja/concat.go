package jinja

// printer is an expression that can write its text without building it first.
type printer interface {
	print(f *frame) error
}

var (
	_ printer = (*concatNode)(nil)
	_ printer = (*sumNode)(nil)
)

// concatNode is a ~ b ~ c.
type concatNode struct{ parts []expr }

// evalTo evaluates the parts onto the stack of arguments.
func (n *concatNode) evalTo(f *frame) error {
	for _, e := range n.parts {
		v, err := e.eval(f)
		if err != nil {
			return err
		}
		f.st.args = append(f.st.args, v)
	}
	return nil
}

func (n *concatNode) eval(f *frame) (Value, error) {
	base := len(f.st.args)
	defer func() { f.st.args = f.st.args[:base] }()
	if err := n.evalTo(f); err != nil {
		return Value{}, err
	}
	return f.st.concat(f.st.args[base:])
}

func (n *concatNode) print(f *frame) error {
	base := len(f.st.args)
	defer func() { f.st.args = f.st.args[:base] }()
	if err := n.evalTo(f); err != nil {
		return err
	}
	return f.st.out.values(f.st.args[base:])
}

func (b *builder) values(all []Value) error {
	for i := range all {
		if err := b.value(all[i]); err != nil {
			return err
		}
	}
	return nil
}

// concat joins the texts of values.
func (st *state) concat(all []Value) (Value, error) {
	if len(all) == 1 && all[0].isString() {
		return all[0], nil
	}
	size := 0
	for i := range all {
		size += len(all[i].str)
	}
	b := builder{st: st}
	if err := b.grow(size); err != nil {
		return Value{}, err
	}
	if err := b.values(all); err != nil {
		return Value{}, err
	}
	return b.done(), nil
}

// sumNode is a + b + c. Strings are only put together once all of them are there.
type sumNode struct{ parts []expr }

func (n *sumNode) eval(f *frame) (Value, error) {
	base := len(f.st.args)
	defer func() { f.st.args = f.st.args[:base] }()
	sum, ok, err := n.evalTo(f)
	if !ok || err != nil {
		return sum, err
	}
	return f.st.concat(f.st.args[base:])
}

func (n *sumNode) print(f *frame) error {
	base := len(f.st.args)
	defer func() { f.st.args = f.st.args[:base] }()
	sum, ok, err := n.evalTo(f)
	switch {
	case err != nil:
		return err
	case ok:
		return f.st.out.values(f.st.args[base:])
	}
	return f.st.out.value(sum)
}

// evalTo evaluates the parts. If all are strings, ok is true and they are on the stack of
// arguments, else sum is their sum.
func (n *sumNode) evalTo(f *frame) (sum Value, ok bool, err error) {
	st := f.st
	base := len(st.args)
	for i, e := range n.parts {
		v, err := e.eval(f)
		if err != nil {
			return Value{}, false, err
		}
		if !v.isString() || v.safe {
			return n.addFrom(f, base, i, v)
		}
		st.args = append(st.args, v)
	}
	return Value{}, true, nil
}

// addFrom goes on at a part whose value v is no string.
func (n *sumNode) addFrom(f *frame, base, at int, v Value) (Value, bool, error) {
	sum := v
	if at > 0 {
		before, err := f.st.concat(f.st.args[base:])
		if err != nil {
			return Value{}, false, err
		}
		if sum, err = add(f.st, before, v); err != nil {
			return Value{}, false, err
		}
	}
	for _, e := range n.parts[at+1:] {
		v, err := e.eval(f)
		if err != nil {
			return Value{}, false, err
		}
		if sum, err = add(f.st, sum, v); err != nil {
			return Value{}, false, err
		}
	}
	return sum, false, nil
}
