package jinja

import (
	"strconv"
	"strings"
)

func listFilters() []*builtin {
	return []*builtin{
		define("length|count", func(st *state, a []Value) (Value, error) { return st.length(a[0]) }),
		define("list", func(st *state, a []Value) (Value, error) {
			items, err := st.list(a[0])
			return List(items), err
		}),
		define("first", firstFilter),
		define("last", lastFilter),
		define("reverse", reverseFilter),
		define("join d=, attribute=", joinFilter),
		define("items", itemsFilter),
		define("batch linecount, fill_with=", batchFilter),
		define("slice slices, fill_with=", sliceFilter),
		define("unique case_sensitive=, attribute=", uniqueFilter),
		define("sort reverse=, case_sensitive=, attribute=", sortFilter),
		define("dictsort case_sensitive=, by=, reverse=", dictSortFilter),
		define("groupby attribute, default=, case_sensitive=", groupByFilter),
		define("min case_sensitive=, attribute=", extreme(compareLess)),
		define("max case_sensitive=, attribute=", extreme(compareGreater)),
		{name: "map", free: mapFilter},
		{name: "select", free: selecting("sync_do_select", false, true)},
		{name: "reject", free: selecting("sync_do_reject", false, false)},
		{name: "selectattr", free: selecting("sync_do_selectattr", true, true)},
		{name: "rejectattr", free: selecting("sync_do_rejectattr", true, false)},
	}
}

func firstFilter(st *state, a []Value) (Value, error) {
	it, err := st.iterate(a[0])
	if err != nil {
		return Value{}, err
	}
	v, ok, err := it.next(st)
	if !ok && err == nil {
		return hinted("No first item, sequence was empty."), nil
	}
	return v, err
}

func lastFilter(st *state, a []Value) (Value, error) {
	items, err := st.reversible(a[0])
	if err != nil {
		return Value{}, err
	}
	if len(items) == 0 {
		return hinted("No last item, sequence was empty."), nil
	}
	return items[len(items)-1], nil
}

// reversible lists what Python's reversed accepts.
func (st *state) reversible(v Value) ([]Value, error) {
	switch v.kind {
	case kindList, kindTuple, kindString, kindDict, kindView, kindRange:
		return st.list(v)
	case kindUndefined:
		return nil, nil
	}
	return nil, typeErrorf("'%s' object is not reversible", v.typeName())
}

func reverseFilter(st *state, a []Value) (Value, error) {
	if a[0].isString() {
		return st.slice(a[0], [3]Value{{}, {}, Int(-1)})
	}
	items, err := st.reversible(a[0])
	if err != nil {
		if items, err = st.list(a[0]); err != nil {
			return Value{}, err
		}
		if err := st.allocValues(len(items)); err != nil {
			return Value{}, err
		}
		items = append([]Value(nil), items...)
		reverse(items)
		return List(items), nil
	}
	return st.generator("reversed", &backIter{items})
}

func joinFilter(st *state, a []Value) (Value, error) {
	sep := String("")
	var err error
	if a[1].given() {
		if sep, err = st.str(a[1]); err != nil {
			return Value{}, err
		}
	}
	it, err := st.iterate(a[0])
	if err != nil {
		return Value{}, err
	}
	path, err := st.attributePath(a[2])
	if err != nil {
		return Value{}, err
	}
	b := builder{st: st}
	for i := 0; ; i++ {
		v, ok, err := it.next(st)
		if err != nil {
			return Value{}, err
		}
		if !ok {
			return b.done(), nil
		}
		if v, err = path.of(st, v); err != nil {
			return Value{}, err
		}
		if i > 0 {
			if err := b.text(sep); err != nil {
				return Value{}, err
			}
		}
		if err := b.value(v); err != nil {
			return Value{}, err
		}
	}
}

func itemsFilter(st *state, a []Value) (Value, error) {
	switch a[0].kind {
	case kindUndefined:
		return st.generator("generator", &listIter{})
	case kindDict:
		return st.generator("generator", &viewIter{&view{a[0].ref.(*dict), viewItems}, 0})
	}
	return Value{}, typeError("Can only get item pairs from a mapping.")
}

// path is an attribute as filters take it: names and numbers, parted by dots.
type path []pathPart

// pathPart is a name, or else a number.
type pathPart struct {
	field *field
	index Value
}

func (p pathPart) of(st *state, v Value) (Value, error) {
	if p.field != nil {
		return p.field.get(st, v)
	}
	return st.getitem(v, p.index)
}

func (st *state) attributePath(v Value) (path, error) {
	switch {
	case v.absent():
		return nil, nil
	case !v.isString():
		return path{{index: v}}, nil
	}
	var p path
	for part := range strings.SplitSeq(v.str, ".") {
		if len(p) == 32 {
			return nil, valueError("an attribute has too many parts")
		}
		if part != "" && strings.Trim(part, "0123456789") == "" {
			if i, err := strconv.ParseInt(part, 10, 64); err == nil {
				p = append(p, pathPart{index: Int(i)})
				continue
			}
		}
		if err := st.alloc(fieldBytes); err != nil {
			return nil, err
		}
		p = append(p, pathPart{field: newField(part)})
	}
	return p, nil
}

func (p path) of(st *state, v Value) (Value, error) { return p.ofOr(st, v, None()) }

// ofOr puts a default in the place of what is undefined on the way.
func (p path) ofOr(st *state, v, otherwise Value) (Value, error) {
	var err error
	for _, part := range p {
		if v, err = part.of(st, v); err != nil {
			return Value{}, err
		}
		if v.kind == kindUndefined && !otherwise.absent() {
			v = otherwise
		}
	}
	return v, nil
}

func (a args) copy() args {
	return args{append([]Value(nil), a.plain...), append([]namedValue(nil), a.named...)}
}

// take removes a named argument.
func (a *args) take(name string) (Value, bool) {
	for i, n := range a.named {
		if n.name == name {
			a.named = append(a.named[:i:i], a.named[i+1:]...)
			return n.value, true
		}
	}
	return Value{}, false
}

func mapFilter(st *state, self Value, a args) (Value, error) {
	if err := st.allocValues(2*len(a.plain) + 4*len(a.named) + 4); err != nil {
		return Value{}, err
	}
	a = a.copy() // they are needed when the result is read
	return st.lazily("sync_do_map", self, func(st *state) (func(Value) (Value, bool, error), error) {
		if attribute, ok := a.take("attribute"); ok && len(a.plain) == 0 {
			otherwise, _ := a.take("default")
			if len(a.named) > 0 {
				return nil, filterError("Unexpected keyword argument " + quote(a.named[0].name))
			}
			path, err := st.attributePath(attribute)
			return func(v Value) (Value, bool, error) {
				v, err := path.ofOr(st, v, otherwise)
				return v, true, err
			}, err
		}
		if len(a.plain) == 0 {
			return nil, filterError("map requires a filter argument")
		}
		b := filterByName(a.plain[0].str)
		if b == nil || !a.plain[0].isString() {
			return nil, &pythonError{"TemplateRuntimeError", "No filter named " + quote(a.plain[0].str) + "."}
		}
		rest := args{a.plain[1:], a.named}
		return func(v Value) (Value, bool, error) {
			v, err := b.call(st, v, rest)
			return v, true, err
		}, nil
	})
}

func filterError(message string) error { return &pythonError{"FilterArgumentError", message} }

// lazily makes an iterator that applies a function to each item of a value, and drops those
// for which it returns false. As in Jinja, nothing is looked at before it is read.
func (st *state) lazily(name string, over Value, prepare func(st *state) (func(Value) (Value, bool, error), error)) (Value, error) {
	var it iterator
	var do func(Value) (Value, bool, error)
	return st.generator("generator", pullIter(func(st *state) (Value, bool, error) {
		if it == nil {
			if !over.truth() {
				return Value{}, false, nil
			}
			var err error
			if do, err = prepare(st); err != nil {
				return Value{}, false, err
			}
			if it, err = st.iterate(over); err != nil {
				return Value{}, false, err
			}
		}
		for {
			v, ok, err := it.next(st)
			if !ok || err != nil {
				return Value{}, false, err
			}
			if v, ok, err = do(v); ok || err != nil {
				return v, ok, err
			}
		}
	}))
}

// selecting makes select and its like: the test of an item, or of an attribute of it, must
// be what is wanted.
func selecting(name string, byAttribute, want bool) func(st *state, self Value, a args) (Value, error) {
	return func(st *state, self Value, a args) (Value, error) {
		if err := st.allocValues(2*len(a.plain) + 4*len(a.named) + 4); err != nil {
			return Value{}, err
		}
		a = a.copy()
		return st.lazily(name, self, func(st *state) (func(Value) (Value, bool, error), error) {
			var p path
			rest := a
			if byAttribute {
				if len(a.plain) == 0 {
					return nil, filterError("Missing parameter for attribute name")
				}
				var err error
				if p, err = st.attributePath(a.plain[0]); err != nil {
					return nil, err
				}
				rest.plain = a.plain[1:]
			}
			test, err := testOf(rest)
			return func(v Value) (Value, bool, error) {
				of, err := p.of(st, v)
				if err != nil {
					return Value{}, false, err
				}
				ok, err := test(st, of)
				return v, ok == want, err
			}, err
		})
	}
}

func testOf(a args) (func(st *state, v Value) (bool, error), error) {
	if len(a.plain) == 0 {
		return func(_ *state, v Value) (bool, error) { return v.truth(), nil }, nil
	}
	b := testByName(a.plain[0].str)
	if b == nil || !a.plain[0].isString() {
		return nil, &pythonError{"TemplateRuntimeError", "No test named " + quote(a.plain[0].str) + "."}
	}
	rest := args{a.plain[1:], a.named}
	return func(st *state, v Value) (bool, error) {
		v, err := b.call(st, v, rest)
		return v.truth(), err
	}, nil
}
