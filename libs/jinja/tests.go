package jinja

import (
	"unicode"
)

// tests are Jinja's, by name.
func tests() map[string]*builtin {
	is := func(name string, test func(v Value) bool) *builtin {
		return define(name, func(_ *state, a []Value) (Value, error) { return Bool(test(a[0])), nil })
	}
	compares := func(names string, how comparison) *builtin {
		b := define("x other", func(st *state, a []Value) (Value, error) {
			ok, err := st.compare(how, a[0], a[1])
			return Bool(ok), err
		})
		b.name = names
		return b
	}
	return table(
		is("defined", func(v Value) bool { return v.kind != kindUndefined && v.kind != kindMissing }),
		is("undefined", func(v Value) bool { return v.kind == kindUndefined || v.kind == kindMissing }),
		is("none", Value.isNone),
		is("boolean", func(v Value) bool { return v.kind == kindBool }),
		is("true", func(v Value) bool { return v.kind == kindBool && v.num != 0 }),
		is("false", func(v Value) bool { return v.kind == kindBool && v.num == 0 }),
		is("integer", func(v Value) bool { return v.kind == kindInt }),
		is("float", func(v Value) bool { return v.kind == kindFloat }),
		is("number", Value.isNumber),
		is("string", Value.isString),
		is("mapping", func(v Value) bool { return v.kind == kindDict }),
		is("sequence", isSequence),
		is("iterable", isIterable),
		is("callable", isCallable),
		is("escaped", func(v Value) bool { return v.safe }),
		define("odd", remainderIs(1)),
		define("even", remainderIs(0)),
		define("divisibleby num", func(st *state, a []Value) (Value, error) {
			m, err := modulo(st, a[0], a[1])
			if err != nil {
				return Value{}, err
			}
			same, err := st.equal(m, Int(0), 0)
			return Bool(same), err
		}),
		define("lower", casedText(unicode.IsLower)),
		define("upper", casedText(unicode.IsUpper)),
		define("sameas other", func(st *state, a []Value) (Value, error) { return Bool(same(a[0], a[1])), nil }),
		define("in seq", func(st *state, a []Value) (Value, error) {
			ok, err := st.contains(a[1], a[0])
			return Bool(ok), err
		}),
		define("filter", func(_ *state, a []Value) (Value, error) {
			return Bool(a[0].isString() && filterByName(a[0].str) != nil), nil
		}),
		define("test", func(_ *state, a []Value) (Value, error) {
			return Bool(a[0].isString() && testByName(a[0].str) != nil), nil
		}),
		compares("==|eq|equalto", compareEqual),
		compares("!=|ne", compareUnequal),
		compares("<|lt|lessthan", compareLess),
		compares("<=|le", compareLessOrEqual),
		compares(">|gt|greaterthan", compareGreater),
		compares(">=|ge", compareGreaterOrEqual),
	)
}

func isSequence(v Value) bool {
	switch v.kind {
	case kindString, kindList, kindTuple, kindDict, kindRange, kindUndefined, kindMissing:
		return true
	}
	return false
}

func isIterable(v Value) bool {
	switch v.kind {
	case kindString, kindList, kindTuple, kindDict, kindRange, kindView, kindIter, kindUndefined, kindMissing:
		return true
	case kindObject:
		_, ok := v.ref.(*loop)
		return ok
	}
	return false
}

func isCallable(v Value) bool {
	switch v.kind {
	case kindFunc, kindUndefined:
		return true
	case kindObject:
		_, ok := v.ref.(caller)
		return ok
	}
	return false
}

func remainderIs(want int64) func(st *state, a []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		m, err := modulo(st, a[0], Int(2))
		if err != nil {
			return Value{}, err
		}
		same, err := st.equal(m, Int(want), 0)
		return Bool(same), err
	}
}

func casedText(is func(rune) bool) func(st *state, a []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		s, err := st.str(a[0])
		if err != nil {
			return Value{}, err
		}
		return st.cased(s, is)
	}
}

// same is Python's is, as far as it does not depend on how Python shares memory.
func same(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case kindNone, kindMissing:
		return true
	case kindBool, kindInt, kindFloat:
		return a.num == b.num && a.ref == nil && b.ref == nil
	case kindString:
		return a.str == b.str
	}
	return a.ref == b.ref
}
