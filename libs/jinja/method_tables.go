package jinja

import (
	"math"
	"math/big"
)

// dictMethods are the methods of dicts that change nothing.
func dictMethods() map[string]*builtin {
	return table(
		define("get key, default= *", dictGet),
		define("keys *", viewed(viewKeys)),
		define("values *", viewed(viewValues)),
		define("items *", viewed(viewItems)),
		define("copy *", func(st *state, a []Value) (Value, error) {
			d := a[0].ref.(*dict)
			out := &dict{}
			for _, e := range d.entries {
				if err := out.put(st, e.key, e.value); err != nil {
					return Value{}, err
				}
			}
			return Value{kind: kindDict, ref: out}, nil
		}),
	)
}

func dictGet(st *state, a []Value) (Value, error) {
	if err := st.hashable(a[1]); err != nil {
		return Value{}, err
	}
	d := a[0].ref.(*dict)
	if i := d.find(a[1]); i >= 0 {
		return d.entries[i].value, nil
	}
	if a[2].given() {
		return a[2], nil
	}
	return None(), nil
}

func viewed(what viewOf) func(st *state, a []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		return Value{kind: kindView, ref: &view{a[0].ref.(*dict), what}}, st.alloc(valueBytes)
	}
}

func listMethods() map[string]*builtin {
	return table(
		define("count value *", listCount),
		define("index value, start=, stop= *", listIndex),
		define("copy *", func(_ *state, a []Value) (Value, error) { return List(a[0].items()), nil }),
	)
}

func listCount(st *state, a []Value) (Value, error) {
	items, err := st.list(a[0])
	if err != nil {
		return Value{}, err
	}
	n := int64(0)
	for _, item := range items {
		same, err := st.equal(item, a[1], 0)
		if err != nil {
			return Value{}, err
		}
		if same {
			n++
		}
		if err := st.step(1); err != nil {
			return Value{}, err
		}
	}
	return Int(n), nil
}

func listIndex(st *state, a []Value) (Value, error) {
	items, err := st.list(a[0])
	if err != nil {
		return Value{}, err
	}
	b, err := sliceBounds([3]Value{a[2], a[3]}, len(items))
	if err != nil {
		return Value{}, err
	}
	for i := range b.count {
		same, err := st.equal(items[b.start+i], a[1], 0)
		if err != nil {
			return Value{}, err
		}
		if same {
			return Int(int64(b.start + i)), nil
		}
		if err := st.step(1); err != nil {
			return Value{}, err
		}
	}
	return Value{}, valueErrorf("value is not in %s", a[0].typeName())
}

// numberAttribute has the few attributes of numbers that a template could want.
func numberAttribute(v Value, name string) (Value, bool, error) {
	switch name {
	case "real", "numerator":
		if v.kind == kindFloat && name == "numerator" {
			return Value{}, false, nil
		}
		out, err := sign(v, false)
		return out, true, err
	case "imag":
		if v.kind == kindFloat {
			return floating(0, v.prov), true, nil
		}
		return smallInt(0, v.prov), true, nil
	case "denominator":
		return Int(1), v.kind != kindFloat, nil
	case "is_integer":
		if v.kind != kindFloat {
			return Value{}, false, nil
		}
		return method(name, func(*state, args) (Value, error) {
			return Bool(v.float() == math.Trunc(v.float()) && !math.IsInf(v.float(), 0)), nil
		}), true, nil
	case "bit_length":
		if v.kind == kindFloat {
			return Value{}, false, nil
		}
		return method(name, func(*state, args) (Value, error) {
			return Int(int64(new(big.Int).Abs(bigOf(v)).BitLen())), nil
		}), true, nil
	}
	return Value{}, false, nil
}
