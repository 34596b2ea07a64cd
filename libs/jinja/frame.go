package jinja

// frame holds the variables of a function that runs.
type frame struct {
	st    *state
	slots []Value
	outer *frame // of the function around it
}

func (f *frame) load(r ref) Value {
	switch r.up {
	case 0:
		return f.slots[r.index]
	case upGlobal:
		return f.st.globals[r.index]
	}
	for ; r.up > 0; r.up-- {
		f = f.outer
	}
	return f.slots[r.index]
}

// enter gives the variables of a scope their first values.
func (f *frame) enter(starts []start) {
	for i := range starts {
		if s := &starts[i]; s.none {
			f.slots[s.to] = Value{}
		} else {
			f.slots[s.to] = f.load(s.from)
		}
	}
}

// newFrame pays for the variables of a function.
func (st *state) newFrame(fn *function, outer *frame) (*frame, error) {
	if err := st.allocValues(fn.slots + 6); err != nil {
		return nil, err
	}
	return &frame{st: st, slots: make([]Value, fn.slots), outer: outer}, nil
}

// capture runs what writes, and returns what it wrote.
func (st *state) capture(run func() (flow, error)) (Value, flow, error) {
	outer := st.out
	b := builder{st: st}
	st.out = &b
	how, err := run()
	st.out = outer
	if err != nil {
		return Value{}, how, err
	}
	return b.done(), how, nil
}
