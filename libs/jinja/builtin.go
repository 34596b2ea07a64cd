package jinja

import "strings"

// builtin is a filter, a test, a function, or a method of a value.
type builtin struct {
	name   string
	params []string // after the operand
	// required is how many of them must be given.
	required int
	// unnamed says that they cannot be given by name.
	unnamed bool
	// fn gets the operand and the parameters, of which those not given are missing.
	fn func(st *state, a []Value) (Value, error)
	// free is instead of fn for one that takes any arguments.
	free func(st *state, self Value, a args) (Value, error)
}

// define makes a builtin of a signature such as "indent width=, first=": parameters with =
// are optional. A * at the end says that none can be given by name.
func define(signature string, fn func(st *state, a []Value) (Value, error)) *builtin {
	signature, unnamed := strings.CutSuffix(signature, " *")
	name, list, _ := strings.Cut(signature, " ")
	b := &builtin{name: name, fn: fn, unnamed: unnamed}
	if list == "" {
		return b
	}
	for param := range strings.SplitSeq(list, ", ") {
		param, optional := strings.CutSuffix(param, "=")
		if !optional {
			b.required++
		}
		b.params = append(b.params, param)
	}
	return b
}

const callBytes = 16 // of memory, for the small things that a call makes

func (b *builtin) call(st *state, self Value, a args) (Value, error) {
	if err := st.alloc(callBytes + 2*valueBytes*len(a.named)); err != nil {
		return Value{}, err
	}
	if b.free != nil {
		return b.free(st, self, a)
	}
	if len(a.plain) > len(b.params) {
		return Value{}, typeErrorf("%s() takes at most %d arguments (%d given)", b.name, len(b.params), len(a.plain))
	}
	base := len(st.args)
	defer func() { st.args = st.args[:base] }()
	st.args = append(append(st.args, self), a.plain...)
	for range len(b.params) - len(a.plain) {
		st.args = append(st.args, Value{})
	}
	all := st.args[base:]
	for _, n := range a.named {
		if err := b.place(all, n, len(a.plain)); err != nil {
			return Value{}, err
		}
	}
	for i := range b.required {
		if !all[i+1].given() {
			return Value{}, typeErrorf("%s() missing required argument %s", b.name, quote(b.params[i]))
		}
	}
	return b.fn(st, all)
}

// place puts an argument given by name in its place.
func (b *builtin) place(all []Value, n namedValue, plain int) error {
	if b.unnamed {
		return typeErrorf("%s() takes no keyword arguments", b.name)
	}
	for i, param := range b.params {
		if param != n.name {
			continue
		}
		if i < plain {
			return typeErrorf("%s() got multiple values for argument %s", b.name, quote(n.name))
		}
		all[i+1] = n.value
		return nil
	}
	return typeErrorf("%s() got an unexpected keyword argument %s", b.name, quote(n.name))
}

// table indexes builtins by name; further names of one are parted by bars.
func table(all ...*builtin) map[string]*builtin {
	out := make(map[string]*builtin, len(all))
	for _, b := range all {
		names := strings.Split(b.name, "|")
		b.name = names[0]
		for _, name := range names {
			out[name] = b
		}
	}
	return out
}

// bound is a function as a value, perhaps with the value that it is a method of.
type bound struct {
	fn   *builtin
	self Value
}

func (b *bound) typeName() string {
	if b.self.given() {
		return "builtin_function_or_method"
	}
	return "function"
}

// Func makes a value that templates can call. A function gets the arguments given by
// position; named ones are an error. It calls pay before it makes n bytes, or does the work of
// that, and returns its error. What it makes of arguments that came out of the chat
// counts to the chat.
func Func(name string, fn func(arguments []Value, pay func(bytes int) error) (Value, error)) Value {
	return method(name, func(st *state, a args) (Value, error) {
		if len(a.named) > 0 {
			return Value{}, typeErrorf("%s() got an unexpected keyword argument %s", name, quote(a.named[0].name))
		}
		v, err := fn(a.plain, st.alloc)
		for _, argument := range a.plain {
			if argument.prov != ofTemplate {
				v = v.withProv(ofChat)
			}
		}
		return v, err
	})
}

func method(name string, fn func(st *state, a args) (Value, error)) Value {
	b := &builtin{name: name, free: func(st *state, _ Value, a args) (Value, error) { return fn(st, a) }}
	return Value{kind: kindFunc, ref: &bound{fn: b}}
}
