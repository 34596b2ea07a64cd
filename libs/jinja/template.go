package jinja

import (
	"context"
	"time"
)

// Template is a parsed template.
type Template struct {
	body    []stmt
	fn      *function
	starts  []start
	globals map[string]int // the places of the variables that it uses
	consts  []Value        // what they are unless they are given
}

// Variable is what a template is rendered with, by name.
type Variable struct {
	Name  string
	Value Value
}

// Parse reads a template. Its error is an *Error with the line.
func Parse(source string) (*Template, error) {
	body, err := parse(source)
	if err != nil {
		return nil, err
	}
	prog := &program{globals: map[string]int{}}
	root := newScope(nil, &function{}, prog)
	declareAll(root, body)
	t := &Template{body: body, fn: root.fn, starts: root.enter()}
	bindAll(root, body)
	t.globals = prog.globals
	t.consts = make([]Value, len(t.globals))
	for name, at := range t.globals {
		t.consts[at] = library().functions[name]
	}
	return t, nil
}

// Render runs the template. sizeBytes says how large the variables are, by which the
// defaults of the limits grow. Errors are an *Error with the line; they wrap what a function
// returned, the context's error, or ErrLimit.
func (t *Template) Render(ctx context.Context, variables []Variable, sizeBytes int, limits Limits) (Text, error) {
	limits = limits.withDefaults(sizeBytes)
	st := &state{ctx: ctx, limits: limits, steps: limits.Steps, memory: limits.Memory, globals: append([]Value(nil), t.consts...)}
	if limits.Time > 0 {
		st.deadline = time.Now().Add(limits.Time)
	}
	for _, v := range variables {
		if at, ok := t.globals[v.Name]; ok {
			st.globals[at] = v.Value
		}
	}
	if err := st.poll(); err != nil {
		return Text{}, err
	}
	out := builder{st: st}
	if err := out.grow(min(sizeBytes, limits.Memory/8)); err != nil {
		return Text{}, err
	}
	out.limit = limits.Output
	st.out = &out
	f, err := st.newFrame(t.fn, nil)
	if err != nil {
		return Text{}, err
	}
	f.enter(t.starts)
	if _, err := execAll(f, t.body); err != nil {
		return Text{}, err
	}
	return Text{out.done()}, nil
}
