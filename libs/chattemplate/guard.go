package chattemplate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// guard bounds one rendering, through the hooks that instrument put into the
// template and the functions that it replaces.
//
// Hooks do not see into a single expression. By the bounds of admit.go it may take for a
// moment some 64 times Limits.Bytes of memory, and the time to fill that, before the
// next hook looks; only a template made to harm comes near.
type guard struct {
	ctx     context.Context // of the one rendering that the guard is made for
	limits  Limits
	now     func() time.Time
	filters map[string]function
	steps   int
	bytes   int
	depth   int
	err     error // the first
}

const (
	maxValueNodes = 100_000 // of a variable
	maxValueDepth = 64      // also what stops at a value that holds itself
)

// install adds the hooks and functions to a template's variables.
func (g *guard) install(variables map[string]jinja.Value) {
	for name, fn := range map[string]function{
		"__print": g.print, "__keep": g.keep, "__pass": g.pass, "__enter": g.enter, "__leave": g.leave,
		"range": rangeOf, "raise_exception": raise, "strftime_now": g.strftimeNow, "dict": newDict, "namespace": newDict,
	} {
		variables[name] = jinja.NewCallable(name, g.sticky(fn))
	}
	for name, fn := range g.filters {
		variables[hookPrefix+name] = jinja.NewCallable(name, g.sticky(func(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
			v, err := fn(args, named)
			if err != nil {
				return v, err
			}
			_, err = g.check(v)
			return v, err
		}))
	}
}

// sticky makes the first error the last: the library drops errors in the bounds
// of a slice, and would go on.
func (g *guard) sticky(fn function) function {
	return func(args []jinja.Value, named map[string]jinja.Value) (v jinja.Value, err error) {
		if g.err == nil {
			v, g.err = fn(args, named)
		}
		return v, g.err
	}
}

func exceeded(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrLimit, fmt.Sprintf(format, args...))
}

// step counts work and notices the end of the context.
func (g *guard) step(n int) error {
	if g.steps += n; g.steps > g.limits.Steps {
		return exceeded("more than %d steps", g.limits.Steps)
	}
	if g.ctx.Err() != nil {
		return context.Cause(g.ctx)
	}
	return nil
}

func (g *guard) write(bytes int) error {
	if g.bytes += bytes; g.bytes > g.limits.Bytes {
		return exceeded("more than %d bytes written", g.limits.Bytes)
	}
	return nil
}

// check bounds a value, counted as a tree: what is in it twice counts twice, since it
// would be printed twice.
func (g *guard) check(v jinja.Value) (bytes int, err error) {
	c := checker{limit: g.limits.Bytes}
	if err := c.value(v, 0); err != nil {
		return 0, err
	}
	return c.bytes, g.step(c.nodes / 64)
}

type checker struct{ nodes, bytes, limit int }

func (c *checker) value(v jinja.Value, depth int) error {
	c.nodes++
	switch {
	case v.IsString():
		c.bytes += len(v.AsString())
	case v.IsCallable():
		if name := v.AsCallable().Name; strings.Contains(name, ".") && !strings.HasPrefix(name, "loop.") && !strings.HasPrefix(name, "cycler.") {
			return fmt.Errorf("the method %s is not allowed as a value", name)
		}
	case v.IsList(), v.IsDict():
	default:
		c.bytes += 8 // about what a number prints
	}
	switch {
	case c.bytes > c.limit:
		return exceeded("a value of more than %d bytes", c.limit)
	case c.nodes > maxValueNodes:
		return exceeded("a value of more than %d nodes", maxValueNodes)
	case depth > maxValueDepth:
		return exceeded("a value that nests deeper than %d, or holds itself", maxValueDepth)
	}
	return c.inner(v, depth)
}

func (c *checker) inner(v jinja.Value, depth int) error {
	if v.IsList() {
		for _, item := range v.AsList().Items {
			if err := c.value(item, depth+1); err != nil {
				return err
			}
		}
	}
	if v.IsDict() {
		d := v.AsDict()
		for _, key := range d.Keys {
			c.bytes += len(key)
			if err := c.value(d.Data[key], depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// print is {{ x }}.
func (g *guard) print(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	v, err := g.kept(args)
	if err != nil {
		return v, err
	}
	bytes, err := g.check(v)
	if err != nil {
		return v, err
	}
	return v, g.write(bytes)
}

func (g *guard) kept(args []jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("expression without a value")
	}
	return args[0], nil
}

// keep is {% set … = x %}; a second argument is the object of which an attribute is
// set, which must not come to hold itself.
func (g *guard) keep(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	v, err := g.kept(args)
	if err != nil {
		return v, err
	}
	if _, err := g.check(v); err != nil {
		return v, err
	}
	if len(args) > 1 && args[1].IsDict() && holds(v, args[1].AsDict()) {
		return v, exceeded("a value that holds itself")
	}
	return v, nil
}

// holds reports whether v, which was checked, is the dict or has it inside.
func holds(v jinja.Value, d *jinja.Dict) bool {
	if v.IsList() {
		for _, item := range v.AsList().Items {
			if holds(item, d) {
				return true
			}
		}
	}
	if v.IsDict() {
		if v.AsDict() == d {
			return true
		}
		for _, key := range v.AsDict().Keys { // what is not in Keys is never printed or compared
			if holds(v.AsDict().Data[key], d) {
				return true
			}
		}
	}
	return false
}

// pass is at the head of a loop's body: the bytes of text in it, then its variables.
func (g *guard) pass(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	empty := jinja.NewString("")
	if err := g.step(1); err != nil {
		return empty, err
	}
	for _, v := range args[1:] {
		if _, err := g.check(v); err != nil {
			return empty, err
		}
	}
	return empty, g.write(int(args[0].AsInt()))
}

// enter is at the head of a macro's body, leave at its end.
func (g *guard) enter(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if g.depth++; g.depth > g.limits.Depth {
		return jinja.Undefined(), exceeded("macros call each other deeper than %d", g.limits.Depth)
	}
	return g.pass(args, nil)
}

func (g *guard) leave([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	g.depth--
	return jinja.NewString(""), nil
}
