package jinja

// object is a value that only the template language has.
type object interface {
	typeName() string
	module() string // Python's, for messages
	// attr is an attribute. ok is false if there is none.
	attr(st *state, name string) (v Value, ok bool, err error)
	repr(b *builder, depth int) error
}

// caller is an object that can be called.
type caller interface {
	call(st *state, a args) (Value, error)
}

func objectValue(o object) Value { return Value{kind: kindObject, ref: o} }

// namespace holds what a template may change.
type namespace struct{ d dict }

var _ object = (*namespace)(nil)

func (*namespace) typeName() string { return "Namespace" }
func (*namespace) module() string   { return "jinja2.utils" }

func (n *namespace) attr(_ *state, name string) (Value, bool, error) {
	v, ok := n.d.get(name)
	return v, ok, nil
}

func (n *namespace) repr(b *builder, depth int) error {
	if depth > maxValueDepth {
		return tooDeep()
	}
	if err := b.glue("<Namespace "); err != nil {
		return err
	}
	if err := b.fields(&n.d, depth+1); err != nil {
		return err
	}
	return b.glue(">")
}

// cycler is what the function of that name returns.
type cycler struct {
	items []Value
	at    int
}

var _ object = (*cycler)(nil)

func (*cycler) typeName() string { return "Cycler" }
func (*cycler) module() string   { return "jinja2.utils" }

func (c *cycler) attr(st *state, name string) (Value, bool, error) {
	if err := st.alloc(4 * valueBytes); err != nil {
		return Value{}, false, err
	}
	switch name {
	case "current":
		return c.items[c.at], true, nil
	case "next":
		return method("next", func(*state, args) (Value, error) {
			v := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return v, nil
		}), true, nil
	case "reset":
		return method("reset", func(*state, args) (Value, error) {
			c.at = 0
			return None(), nil
		}), true, nil
	}
	return Value{}, false, nil
}

func (c *cycler) repr(b *builder, _ int) error { return b.glue("<jinja2.utils.Cycler object>") }

// joiner returns a separator each time that it is called but the first.
type joiner struct {
	sep  Value
	used bool
}

var (
	_ object = (*joiner)(nil)
	_ caller = (*joiner)(nil)
)

func (*joiner) typeName() string                         { return "Joiner" }
func (*joiner) module() string                           { return "jinja2.utils" }
func (*joiner) attr(*state, string) (Value, bool, error) { return Value{}, false, nil }
func (j *joiner) repr(b *builder, _ int) error           { return b.glue("<jinja2.utils.Joiner object>") }
func (j *joiner) call(*state, args) (Value, error) {
	if !j.used {
		j.used = true
		return String(""), nil
	}
	return j.sep, nil
}
