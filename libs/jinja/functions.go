package jinja

import (
	"math"
)

// functions are the global ones of Jinja.
func functions() map[string]Value {
	out := map[string]Value{}
	for _, b := range []*builtin{
		define("range start, stop=, step= *", newRange),
		{name: "dict", free: func(st *state, _ Value, a args) (Value, error) {
			d := &dict{}
			return Value{kind: kindDict, ref: d}, d.fill(st, "dict", a)
		}},
		{name: "namespace", free: func(st *state, _ Value, a args) (Value, error) {
			n := &namespace{}
			return objectValue(n), n.d.fill(st, "namespace", a)
		}},
		{name: "cycler", free: func(st *state, _ Value, a args) (Value, error) {
			if len(a.plain) == 0 || len(a.named) > 0 {
				return Value{}, &pythonError{"RuntimeError", "at least one item has to be provided"}
			}
			return objectValue(&cycler{items: append([]Value(nil), a.plain...)}), st.allocValues(len(a.plain) + 1)
		}},
		define("joiner sep=", func(st *state, a []Value) (Value, error) {
			j := &joiner{sep: a[1]}
			if !a[1].given() {
				j.sep = String(", ")
			}
			return objectValue(j), st.alloc(2 * valueBytes)
		}),
	} {
		out[b.name] = Value{kind: kindFunc, ref: &bound{fn: b}}
	}
	return out
}

const maxRange = 100_000 // as in Jinja's sandbox

func newRange(_ *state, a []Value) (Value, error) {
	var n [3]int64
	for i, v := range a[1:] {
		switch {
		case !v.given():
		case v.kind == kindUndefined:
			return Value{}, useOf(v)
		case !v.isInt():
			return Value{}, typeErrorf("'%s' object cannot be interpreted as an integer", v.typeName())
		case v.isBig():
			return Value{}, rangeTooBig()
		}
		n[i] = v.int()
	}
	r := &span{start: n[0], stop: n[1], step: n[2]}
	for _, v := range a[1:] {
		r.prov = r.prov.join(v.prov)
	}
	if !a[2].given() {
		r.start, r.stop = 0, n[0]
	}
	if !a[3].given() {
		r.step = 1
	}
	if r.step == 0 {
		return Value{}, valueError("range() arg 3 must not be zero")
	}
	if r.step == math.MinInt64 || r.len() > maxRange || r.len() < 0 {
		return Value{}, rangeTooBig()
	}
	return Value{kind: kindRange, ref: r}, nil
}

func rangeTooBig() error {
	return limitError("OverflowError: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).")
}

// fill is what dict(…) does with its arguments.
func (d *dict) fill(st *state, name string, a args) error {
	if len(a.plain) > 1 {
		return typeErrorf("%s expected at most 1 argument, got %d", name, len(a.plain))
	}
	if len(a.plain) == 1 {
		if err := d.fillFrom(st, a.plain[0]); err != nil {
			return err
		}
	}
	for _, n := range a.named {
		if err := d.put(st, n.key(), n.value); err != nil {
			return err
		}
	}
	return nil
}

func (d *dict) fillFrom(st *state, v Value) error {
	if v.kind == kindDict {
		for _, e := range v.ref.(*dict).entries {
			if err := d.put(st, e.key, e.value); err != nil {
				return err
			}
		}
		return nil
	}
	it, err := st.iterate(v)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		item, ok, err := it.next(st)
		if !ok || err != nil {
			return err
		}
		pair, err := st.list(item)
		if err != nil {
			return typeErrorf("cannot convert dictionary update sequence element #%d to a sequence", i)
		}
		if len(pair) != 2 {
			return valueErrorf("dictionary update sequence element #%d has length %d; 2 is required", i, len(pair))
		}
		if err := d.put(st, pair[0], pair[1]); err != nil {
			return err
		}
	}
}
