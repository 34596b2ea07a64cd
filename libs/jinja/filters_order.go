package jinja

import (
	"slices"
	"strings"
)

// cmp orders two values by Python's <.
func (st *state) cmp(a, b Value) (int, error) {
	if err := st.step(1); err != nil {
		return 0, err
	}
	less, err := st.order(compareLess, a, b, 0)
	if less || err != nil {
		return -1, err
	}
	more, err := st.order(compareLess, b, a, 0)
	if more {
		return 1, err
	}
	return 0, err
}

// keyed is an item with what it is sorted by.
type keyed struct{ key, item Value }

// folded makes a key that does not tell cases apart.
func (st *state) folded(v Value) (Value, error) {
	if !v.isString() {
		return v, nil
	}
	return st.recase(v, caseLower)
}

// keysOf finds the keys of items: attributes, perhaps several, perhaps folded.
func (st *state) keysOf(items []Value, attribute Value, caseSensitive, several bool) ([]keyed, error) {
	if err := st.allocValues(2 * len(items)); err != nil {
		return nil, err
	}
	names := []Value{attribute}
	if several && attribute.isString() {
		names = nil
		for name := range strings.SplitSeq(attribute.str, ",") {
			names = append(names, String(name))
		}
	}
	paths := make([]path, len(names))
	for i, name := range names {
		var err error
		if paths[i], err = st.attributePath(name); err != nil {
			return nil, err
		}
	}
	out := make([]keyed, len(items))
	for i, item := range items {
		key, err := st.keyOf(item, paths, caseSensitive, several)
		if err != nil {
			return nil, err
		}
		out[i] = keyed{key, item}
	}
	return out, nil
}

func (st *state) keyOf(item Value, paths []path, caseSensitive, several bool) (Value, error) {
	if err := st.allocValues(len(paths)); err != nil {
		return Value{}, err
	}
	keys := make([]Value, len(paths))
	for i, p := range paths {
		key, err := p.of(st, item)
		if err == nil && !caseSensitive {
			key, err = st.folded(key)
		}
		if err != nil {
			return Value{}, err
		}
		keys[i] = key
	}
	if !several {
		return keys[0], nil
	}
	return tuple(keys...), nil
}

// sorted is Python's sorted: stable, also when reversed.
func (st *state) sorted(items []keyed, reversed bool) error {
	var failed error
	slices.SortStableFunc(items, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		c, err := st.cmp(a.key, b.key)
		failed = err
		if reversed {
			return -c
		}
		return c
	})
	return failed
}

func itemsOf(all []keyed) Value {
	items := make([]Value, len(all))
	for i, k := range all {
		items[i] = k.item
	}
	return List(items)
}

func sortFilter(st *state, a []Value) (Value, error) {
	items, err := st.list(a[0])
	if err != nil {
		return Value{}, err
	}
	all, err := st.keysOf(items, a[3], a[2].truth(), true)
	if err != nil {
		return Value{}, err
	}
	if err := st.sorted(all, a[1].truth()); err != nil {
		return Value{}, err
	}
	return itemsOf(all), st.allocValues(len(all))
}

func dictSortFilter(st *state, a []Value) (Value, error) {
	by := 0
	if a[2].given() {
		switch a[2].str {
		case "key":
		case "value":
			by = 1
		default:
			return Value{}, filterError(`You can only sort by either "key" or "value"`)
		}
	}
	if a[0].kind != kindDict {
		if a[0].kind == kindUndefined {
			return Value{}, useOf(a[0])
		}
		return Value{}, &pythonError{"AttributeError", "'" + a[0].typeName() + "' object has no attribute 'items'"}
	}
	d := a[0].ref.(*dict)
	if err := st.allocValues(5 * d.len()); err != nil {
		return Value{}, err
	}
	all := make([]keyed, d.len())
	for i, e := range d.entries {
		key := []Value{e.key, e.value}[by]
		if !a[1].truth() {
			var err error
			if key, err = st.folded(key); err != nil {
				return Value{}, err
			}
		}
		all[i] = keyed{key, tuple(e.key, e.value)}
	}
	if err := st.sorted(all, a[3].truth()); err != nil {
		return Value{}, err
	}
	return itemsOf(all), nil
}

func uniqueFilter(st *state, a []Value) (Value, error) {
	path, err := st.attributePath(a[2])
	if err != nil {
		return Value{}, err
	}
	it, err := st.iterate(a[0])
	if err != nil {
		return Value{}, err
	}
	seen, sensitive := &dict{}, a[1].truth()
	return st.generator("generator", pullIter(func(st *state) (Value, bool, error) {
		for {
			v, ok, err := it.next(st)
			if !ok || err != nil {
				return Value{}, false, err
			}
			key, err := path.of(st, v)
			if err == nil && !sensitive {
				key, err = st.folded(key)
			}
			if err != nil {
				return Value{}, false, err
			}
			n := seen.len()
			if err := seen.put(st, key, Value{}); err != nil {
				return Value{}, false, err
			}
			if seen.len() > n {
				return v, true, nil
			}
		}
	}))
}

// extreme makes min and max.
func extreme(better comparison) func(st *state, a []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		items, err := st.list(a[0])
		if err != nil {
			return Value{}, err
		}
		if len(items) == 0 {
			return hinted("No aggregated item, sequence was empty."), nil
		}
		all, err := st.keysOf(items, a[2], a[1].truth(), false)
		if err != nil {
			return Value{}, err
		}
		best := all[0]
		for _, k := range all[1:] {
			ok, err := st.order(better, k.key, best.key, 0)
			if err != nil {
				return Value{}, err
			}
			if ok {
				best = k
			}
		}
		return best.item, nil
	}
}

// group is what groupby yields: a pair whose parts also have names.
func group(key Value, items []Value) Value {
	return Value{kind: kindTuple, ref: &list{items: []Value{key, List(items)}, group: true}}
}

func groupByFilter(st *state, a []Value) (Value, error) {
	items, err := st.list(a[0])
	if err != nil {
		return Value{}, err
	}
	path, err := st.attributePath(a[1])
	if err != nil {
		return Value{}, err
	}
	if err := st.allocValues(4 * len(items)); err != nil {
		return Value{}, err
	}
	all := make([]keyed, len(items))
	for i, item := range items {
		key, err := path.ofOr(st, item, a[2])
		if err == nil && !a[3].truth() {
			key, err = st.folded(key)
		}
		if err != nil {
			return Value{}, err
		}
		all[i] = keyed{key, item}
	}
	if err := st.sorted(all, false); err != nil {
		return Value{}, err
	}
	var groups []Value
	for start := 0; start < len(all); {
		end := start + 1
		for end < len(all) {
			same, err := st.equal(all[end].key, all[start].key, 0)
			if err != nil {
				return Value{}, err
			}
			if !same {
				break
			}
			end++
		}
		members := make([]Value, 0, end-start)
		for _, k := range all[start:end] {
			members = append(members, k.item)
		}
		key, err := path.ofOr(st, members[0], a[2]) // as it is written in the first
		if err != nil {
			return Value{}, err
		}
		if groups, err = st.push(groups, group(key, members)); err != nil {
			return Value{}, err
		}
		start = end
	}
	return List(groups), nil
}

func batchFilter(st *state, a []Value) (Value, error) {
	if !a[1].isInt() {
		return Value{}, typeErrorf("'%s' object cannot be interpreted as an integer", a[1].typeName())
	}
	size, _ := slicePart(a[1], 0)
	it, err := st.iterate(a[0])
	if err != nil {
		return Value{}, err
	}
	fill := a[2]
	var kept []Value // read, and to begin the next batch
	return st.generator("generator", pullIter(func(st *state) (Value, bool, error) {
		batch := kept
		kept = nil
		for {
			v, ok, err := it.next(st)
			if err != nil {
				return Value{}, false, err
			}
			if !ok {
				break
			}
			if len(batch) == size {
				kept, err = st.push(nil, v)
				return List(batch), true, err
			}
			if batch, err = st.push(batch, v); err != nil {
				return Value{}, false, err
			}
		}
		if len(batch) == 0 {
			return Value{}, false, nil
		}
		for !fill.absent() && len(batch) < size {
			if batch, err = st.push(batch, fill); err != nil {
				return Value{}, false, err
			}
		}
		return List(batch), true, nil
	}))
}

func sliceFilter(st *state, a []Value) (Value, error) {
	if !a[1].isInt() {
		return Value{}, typeErrorf("unsupported operand type(s) for //: 'int' and '%s'", a[1].typeName())
	}
	n, _ := slicePart(a[1], 0)
	items, err := st.list(a[0])
	if err != nil {
		return Value{}, err
	}
	if n == 0 {
		return Value{}, divisionByZero("integer division or modulo by zero")
	}
	if n < 0 {
		return st.generator("generator", &listIter{})
	}
	each, extra := len(items)/n, len(items)%n
	i, offset, fill := 0, 0, a[2]
	return st.generator("generator", pullIter(func(st *state) (Value, bool, error) {
		if i == n {
			return Value{}, false, nil
		}
		start := offset + i*each
		if i < extra {
			offset++
		}
		part := items[start : offset+(i+1)*each : offset+(i+1)*each]
		if !fill.absent() && i >= extra {
			if err := st.allocValues(len(part) + 1); err != nil {
				return Value{}, false, err
			}
			part = append(append(make([]Value, 0, len(part)+1), part...), fill)
		}
		i++
		return List(part), true, st.alloc(valueBytes)
	}))
}
