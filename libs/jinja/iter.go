package jinja

import "unicode/utf8"

// iterator yields the items of a value one by one.
type iterator interface {
	next(st *state) (v Value, ok bool, err error)
	left() int // items still to come, or -1 if only reading them tells
}

// generator is an iterator as a value, such as what map returns: it can be read once.
type generator struct {
	typeName string
	it       iterator
}

func (st *state) generator(typeName string, it iterator) (Value, error) {
	return Value{kind: kindIter, ref: &generator{typeName, it}}, st.alloc(2 * valueBytes)
}

// iterate is Python's iter.
func (st *state) iterate(v Value) (iterator, error) {
	switch v.kind {
	case kindList, kindTuple:
		return &listIter{items: v.items()}, nil
	case kindString:
		return &charIter{v, 0}, nil
	case kindDict:
		return &viewIter{&view{v.ref.(*dict), viewKeys}, 0}, nil
	case kindView:
		return &viewIter{v.ref.(*view), 0}, nil
	case kindRange:
		return &rangeIter{v.ref.(*span), 0}, nil
	case kindIter:
		return v.ref.(*generator).it, nil
	case kindUndefined, kindMissing:
		return &listIter{}, nil
	case kindObject:
		if l, ok := v.ref.(*loop); ok {
			return &loopIter{l}, nil
		}
	}
	return nil, typeErrorf("'%s' object is not iterable", v.typeName())
}

// list reads all items of a value. The result must not be changed.
func (st *state) list(v Value) ([]Value, error) {
	if v.isSequence() {
		return v.items(), nil
	}
	it, err := st.iterate(v)
	if err != nil {
		return nil, err
	}
	return st.collect(it)
}

func (st *state) collect(it iterator) ([]Value, error) {
	n := max(it.left(), 0)
	if err := st.allocValues(n); err != nil {
		return nil, err
	}
	items := make([]Value, 0, n)
	for {
		v, ok, err := it.next(st)
		if !ok || err != nil {
			return items, err
		}
		if items, err = st.push(items, v); err != nil {
			return nil, err
		}
	}
}

// push appends, and pays for it.
func (st *state) push(items []Value, v Value) ([]Value, error) {
	if len(items) == cap(items) {
		n := max(2*cap(items), 4)
		if err := st.allocValues(n); err != nil {
			return nil, err
		}
		items = append(make([]Value, 0, n), items...)
	}
	return append(items, v), nil
}

type listIter struct {
	items []Value
	at    int
}

func (it *listIter) left() int { return len(it.items) - it.at }

func (it *listIter) next(st *state) (Value, bool, error) {
	if it.at == len(it.items) {
		return Value{}, false, nil
	}
	it.at++
	return it.items[it.at-1], true, st.step(1)
}

// backIter yields a list from its end.
type backIter struct{ items []Value }

func (it *backIter) left() int { return len(it.items) }

func (it *backIter) next(st *state) (Value, bool, error) {
	n := len(it.items)
	if n == 0 {
		return Value{}, false, nil
	}
	v := it.items[n-1]
	it.items = it.items[:n-1]
	return v, true, st.step(1)
}

// charIter yields the characters of a string.
type charIter struct {
	s  Value
	at int
}

func (it *charIter) left() int { return utf8.RuneCountInString(it.s.str[it.at:]) }

func (it *charIter) next(st *state) (Value, bool, error) {
	if it.at == len(it.s.str) {
		return Value{}, false, nil
	}
	_, n := utf8.DecodeRuneInString(it.s.str[it.at:])
	it.at += n
	return it.s.cut(it.at-n, it.at), true, st.step(1)
}

type viewIter struct {
	v  *view
	at int
}

func (it *viewIter) left() int { return it.v.d.len() - it.at }

func (it *viewIter) next(st *state) (Value, bool, error) {
	if it.at >= it.v.d.len() {
		return Value{}, false, nil
	}
	if it.v.what == viewItems {
		if err := st.allocValues(3); err != nil {
			return Value{}, false, err
		}
	}
	it.at++
	return it.v.at(it.at - 1), true, st.step(1)
}

type rangeIter struct {
	r  *span
	at int
}

func (it *rangeIter) left() int { return it.r.len() - it.at }

func (it *rangeIter) next(st *state) (Value, bool, error) {
	if it.at >= it.r.len() {
		return Value{}, false, nil
	}
	it.at++
	return it.r.at(it.at - 1), true, st.step(1)
}

// loopIter yields the rest of a loop, as pairs with the loop itself.
type loopIter struct{ l *loop }

func (it *loopIter) left() int { return -1 }

func (it *loopIter) next(st *state) (Value, bool, error) {
	v, ok, err := it.l.advance(st)
	if !ok || err != nil {
		return Value{}, false, err
	}
	return tuple(v, objectValue(it.l)), true, st.allocValues(3)
}

// pullIter is an iterator made of a function, which may read another: they nest like calls.
type pullIter func(st *state) (Value, bool, error)

func (pullIter) left() int { return -1 }

func (it pullIter) next(st *state) (Value, bool, error) {
	if err := st.enter(); err != nil {
		return Value{}, false, err
	}
	defer st.leave()
	return it(st)
}
