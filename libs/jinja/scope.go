package jinja

// A function is what has slots for variables of its own at run time: the template, a
// macro, the body of a call block, a recursive loop.
type function struct{ slots int }

// scope is where names mean something. What a name means follows Jinja, which compiles
// scopes to local variables of Python functions: a loop's body, say, begins each pass with
// its own copy of an outer variable that it assigns to.
type scope struct {
	parent *scope
	fn     *function
	vars   map[string]*variable // that begin in this scope
	stores map[string]bool      // that it assigns to
	all    map[string]*variable // of vars, across the branches of an if
	added  additions            // since the branch of an if that is looked at began
	prog   *program
}

type additions struct{ vars, stores []string }

// variable is a slot, and what it starts with when its scope is entered.
type variable struct {
	slot  slot
	start startKind
	outer *variable // for startOuter
}

type startKind uint8

const (
	startGiven   startKind = iota // a parameter
	startNothing                  // undefined until it is assigned
	startOuter                    // the variable of the same name outside
	startGlobal                   // the template's variable
)

// slot is the place of a variable: in the function at hand, in one around it, or among the
// variables that the template is rendered with.
type slot struct {
	fn    *function // nil for the template's
	index int
}

// ref is a slot seen from a function.
type ref struct{ up, index int }

const upGlobal = -1

// program collects what compiling finds out about a template.
type program struct {
	globals map[string]int
}

func (p *program) global(name string) int {
	i, ok := p.globals[name]
	if !ok {
		i = len(p.globals)
		p.globals[name] = i
	}
	return i
}

func newScope(parent *scope, fn *function, prog *program) *scope {
	return &scope{parent: parent, fn: fn, prog: prog, vars: map[string]*variable{}, stores: map[string]bool{}, all: map[string]*variable{}}
}

// inner is a scope within the same function.
func (s *scope) inner() *scope { return newScope(s, s.fn, s.prog) }

// innerFunction is the scope of a function within.
func (s *scope) innerFunction() *scope { return newScope(s, &function{}, s.prog) }

func (s *scope) find(name string) *variable {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return nil
}

func (s *scope) define(name string, start startKind, outer *variable) *variable {
	v, ok := s.all[name]
	if !ok {
		v = &variable{slot: slot{s.fn, s.fn.slots}}
		s.fn.slots++
		s.all[name] = v
	}
	v.start, v.outer = start, outer
	if s.vars[name] == nil {
		s.vars[name] = v
		s.added.vars = append(s.added.vars, name)
	}
	return v
}

// parameter declares a variable that is given when the scope is entered.
func (s *scope) parameter(name string) ref {
	s.assigns(name)
	return ref{0, s.define(name, startGiven, nil).slot.index}
}

func (s *scope) assigns(name string) {
	if !s.stores[name] {
		s.stores[name] = true
		s.added.stores = append(s.added.stores, name)
	}
}

// load notes that a name is read.
func (s *scope) load(name string) {
	if s.find(name) == nil {
		s.define(name, startGlobal, nil)
	}
}

func (s *scope) loads(c code) {
	for _, n := range c.names {
		if !n.written {
			s.load(n.name)
		}
	}
}

// store notes that a name is assigned to.
func (s *scope) store(name string) {
	s.assigns(name)
	if s.vars[name] != nil {
		return
	}
	if s.parent != nil {
		if outer := s.parent.find(name); outer != nil {
			s.define(name, startOuter, outer)
			return
		}
	}
	s.define(name, startNothing, nil)
}

// branches notes what alternatives read and assign, none of which sees what another does.
// What only some of them assign starts with what is outside.
func (s *scope) branches(alternatives ...func()) {
	before := s.added
	var added additions
	for _, alternative := range alternatives {
		s.added = additions{}
		alternative()
		for _, name := range s.added.vars {
			delete(s.vars, name)
		}
		for _, name := range s.added.stores {
			delete(s.stores, name)
		}
		added.vars = append(added.vars, s.added.vars...)
		added.stores = append(added.stores, s.added.stores...)
	}
	s.added = additions{append(before.vars, added.vars...), append(before.stores, added.stores...)}
	for _, name := range added.vars {
		s.vars[name] = s.all[name]
	}
	for _, name := range added.stores {
		s.stores[name] = true
		v := s.vars[name]
		v.start = startGlobal
		if s.parent != nil {
			if outer := s.parent.find(name); outer != nil {
				v.start, v.outer = startOuter, outer
			}
		}
	}
}

// start is what is done when a scope is entered: variables get their first values.
type start struct {
	to   int
	from ref
	none bool
}

// enter lists how the scope's variables start. What is never assigned needs no slot: it is
// read where it is.
func (s *scope) enter() (starts []start) {
	for name, v := range s.vars {
		switch v.start {
		case startNothing:
			starts = append(starts, start{to: v.slot.index, none: true})
		case startOuter:
			starts = append(starts, start{to: v.slot.index, from: s.refTo(v.outer.slot)})
		case startGlobal:
			global := slot{index: s.prog.global(name)}
			if !s.stores[name] {
				v.slot = global
				continue
			}
			starts = append(starts, start{to: v.slot.index, from: s.refTo(global)})
		}
	}
	return starts
}

// refTo counts the functions from here out to where a slot is.
func (s *scope) refTo(at slot) ref {
	if at.fn == nil {
		return ref{upGlobal, at.index}
	}
	up := 0
	for fn, c := s.fn, s; c != nil; c = c.parent {
		if c.fn != fn {
			up++
			fn = c.fn
		}
		if fn == at.fn {
			return ref{up, at.index}
		}
	}
	panic("jinja: a variable of a function that is not around")
}

// bind resolves the names in an expression.
func (s *scope) bind(c code) {
	for _, n := range c.names {
		s.bindName(n)
	}
}

func (s *scope) bindName(n *nameNode) {
	if v := s.find(n.name); v != nil {
		n.ref = s.refTo(v.slot)
		return
	}
	n.ref = ref{upGlobal, s.prog.global(n.name)}
}
