package jinja

import (
	"cmp"
	"math"
	"math/big"
	"strings"
)

type comparison uint8

const (
	compareEqual comparison = iota
	compareUnequal
	compareLess
	compareLessOrEqual
	compareGreater
	compareGreaterOrEqual
	compareIn
	compareNotIn
)

func comparisons() map[string]comparison {
	return map[string]comparison{
		"==": compareEqual, "!=": compareUnequal, "<": compareLess, "<=": compareLessOrEqual,
		">": compareGreater, ">=": compareGreaterOrEqual,
	}
}

func (st *state) compare(how comparison, l, r Value) (bool, error) {
	switch how {
	case compareEqual:
		return st.equal(l, r, 0)
	case compareUnequal:
		ok, err := st.equal(l, r, 0)
		return !ok, err
	case compareIn:
		return st.contains(r, l)
	case compareNotIn:
		ok, err := st.contains(r, l)
		return !ok, err
	}
	return st.order(how, l, r, 0)
}

// equal is Python's ==.
func (st *state) equal(l, r Value, depth int) (bool, error) {
	if err := st.step(1); err != nil { // also for numbers: there may be a list of them
		return false, err
	}
	switch {
	case l.kind == kindString && r.kind == kindString:
		if len(l.str) != len(r.str) {
			return false, nil
		}
		return l.str == r.str, st.scan(len(l.str))
	case l.isNumber() && r.isNumber():
		c, ordered := compareNumbers(l, r)
		return ordered && c == 0, nil
	case l.kind != r.kind:
		return false, nil
	case depth > maxValueDepth:
		return false, tooDeep()
	}
	switch l.kind {
	case kindNone, kindUndefined, kindMissing:
		return true, nil
	case kindList, kindTuple:
		return st.equalLists(l.items(), r.items(), depth)
	case kindDict:
		return st.equalDicts(l.ref.(*dict), r.ref.(*dict), depth)
	case kindView:
		return st.equalViews(l.ref.(*view), r.ref.(*view), depth)
	case kindRange:
		a, b := l.ref.(*span), r.ref.(*span)
		n := a.len()
		return n == b.len() && (n == 0 || a.start == b.start && (n == 1 || a.step == b.step)), nil
	case kindFunc:
		a, b := l.ref.(*bound), r.ref.(*bound)
		if a.fn != b.fn {
			return false, nil
		}
		return st.equal(a.self, b.self, depth+1)
	}
	return l.ref == r.ref, nil
}

func (st *state) equalLists(a, b []Value, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if ok, err := st.equal(a[i], b[i], depth+1); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (st *state) equalDicts(a, b *dict, depth int) (bool, error) {
	if a.len() != b.len() {
		return false, nil
	}
	for _, e := range a.entries {
		i := b.find(e.key)
		if i < 0 {
			return false, nil
		}
		if ok, err := st.equal(e.value, b.entries[i].value, depth+1); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// equalViews compares keys and items as the sets that they are.
func (st *state) equalViews(a, b *view, depth int) (bool, error) {
	if a.what != b.what || a.what == viewValues {
		return a == b, nil
	}
	if a.what == viewItems {
		return st.equalDicts(a.d, b.d, depth)
	}
	if a.d.len() != b.d.len() {
		return false, nil
	}
	for _, e := range a.d.entries {
		if b.d.find(e.key) < 0 {
			return false, nil
		}
	}
	return true, st.step(a.d.len())
}

// compareNumbers orders two numbers; nothing is ordered with NaN.
func compareNumbers(l, r Value) (c int, ordered bool) {
	if bothSmall(l, r) {
		return cmp.Compare(l.int(), r.int()), true
	}
	if bothInts(l, r) {
		return bigOf(l).Cmp(bigOf(r)), true
	}
	if l.kind == kindFloat && r.kind == kindFloat {
		a, b := l.float(), r.float()
		return cmp.Compare(a, b), !math.IsNaN(a) && !math.IsNaN(b)
	}
	if l.kind == kindFloat {
		c, ordered = compareIntFloat(bigOf(r), l.float())
		return -c, ordered
	}
	return compareIntFloat(bigOf(l), r.float())
}

// compareIntFloat is exact, as in Python.
func compareIntFloat(i *big.Int, f float64) (c int, ordered bool) {
	switch {
	case math.IsNaN(f):
		return 0, false
	case math.IsInf(f, 1):
		return -1, true
	case math.IsInf(f, -1):
		return 1, true
	}
	return new(big.Rat).SetInt(i).Cmp(new(big.Rat).SetFloat64(f)), true
}

func (how comparison) holds(c int) bool {
	switch how {
	case compareLess:
		return c < 0
	case compareLessOrEqual:
		return c <= 0
	case compareGreater:
		return c > 0
	case compareGreaterOrEqual:
		return c >= 0
	}
	return c == 0
}

func (how comparison) String() string {
	return [...]string{"==", "!=", "<", "<=", ">", ">=", "in", "not in"}[how]
}

// order is Python's <, <=, > and >=.
func (st *state) order(how comparison, l, r Value, depth int) (bool, error) {
	switch {
	case l.isNumber() && r.isNumber():
		c, ordered := compareNumbers(l, r)
		return ordered && how.holds(c), nil
	case l.kind == kindString && r.kind == kindString:
		return how.holds(strings.Compare(l.str, r.str)), st.scan(min(len(l.str), len(r.str)))
	case l.kind == r.kind && l.isSequence():
		return st.orderLists(how, l.items(), r.items(), depth)
	case l.kind == kindUndefined:
		return false, useOf(l)
	case r.kind == kindUndefined:
		return false, useOf(r)
	}
	return false, typeErrorf("'%s' not supported between instances of '%s' and '%s'", how, l.typeName(), r.typeName())
}

func (st *state) orderLists(how comparison, a, b []Value, depth int) (bool, error) {
	if depth > maxValueDepth {
		return false, tooDeep()
	}
	for i := range min(len(a), len(b)) {
		same, err := st.equal(a[i], b[i], depth+1)
		if err != nil {
			return false, err
		}
		if !same {
			return st.order(how, a[i], b[i], depth+1)
		}
	}
	return how.holds(cmp.Compare(len(a), len(b))), nil
}

// contains is Python's in.
func (st *state) contains(in, v Value) (bool, error) {
	switch in.kind {
	case kindString:
		if !v.isString() {
			return false, typeErrorf("'in <string>' requires string as left operand, not %s", v.typeName())
		}
		return strings.Contains(in.str, v.str), st.scan(len(in.str) + len(v.str))
	case kindDict:
		return st.hasKey(in.ref.(*dict), v)
	case kindView:
		if w := in.ref.(*view); w.what == viewKeys {
			return st.hasKey(w.d, v)
		}
	case kindRange:
		if v.isInt() {
			return rangeHas(in.ref.(*span), v), nil
		}
	}
	it, err := st.iterate(in)
	if err != nil {
		return false, typeErrorf("argument of type '%s' is not iterable", in.typeName())
	}
	for {
		item, ok, err := it.next(st)
		if !ok || err != nil {
			return false, err
		}
		if same, err := st.equal(item, v, 0); same || err != nil {
			return same, err
		}
	}
}

func (st *state) hasKey(d *dict, v Value) (bool, error) {
	if err := st.hashable(v); err != nil {
		return false, err
	}
	return d.find(v) >= 0, nil
}

func rangeHas(r *span, v Value) bool {
	if v.isBig() {
		return false
	}
	i := v.int()
	if r.step > 0 {
		return r.start <= i && i < r.stop && (i-r.start)%r.step == 0
	}
	return r.stop < i && i <= r.start && (r.start-i)%-r.step == 0
}
