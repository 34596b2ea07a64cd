package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// field is what there is to know of a name before it is looked up in a value.
type field struct {
	name                  string
	ofStr, ofDict, ofList *builtin // the methods of that name
	// missing is of dicts, and missingOfStr of strings, if they do not have the attribute, or
	// something like it.
	missing, missingOfStr *undefined
}

const fieldBytes = 512 // of memory, about

func newField(name string) *field {
	bare := &state{memory: 1 << 10, steps: 1 << 10}
	lacks := func(v Value) *undefined {
		if _, ok, err := bare.attribute(v, name); ok || err != nil {
			return nil
		}
		return &undefined{owner: v.ownerName(), name: name}
	}
	return &field{
		name: name, ofStr: stringMethod(name), ofDict: dictMethod(name), ofList: listMethod(name),
		missing: lacks(Value{kind: kindDict, ref: &dict{}}), missingOfStr: lacks(String("")),
	}
}

// attrNode is a.b.
type attrNode struct {
	of expr
	*field
}

func (n *attrNode) eval(f *frame) (Value, error) {
	v, err := n.of.eval(f)
	if err != nil {
		return Value{}, err
	}
	return f.st.attrOf(n, v)
}

// method is the method of a value that the node names, if it is one.
func (n *attrNode) method(v Value) *builtin {
	switch v.kind {
	case kindString:
		return n.ofStr
	case kindDict:
		return n.ofDict
	case kindList:
		return n.ofList
	}
	return nil
}

func (st *state) attrOf(n *attrNode, v Value) (Value, error) {
	if v.kind == kindDict && n.missing != nil {
		if found, ok := v.ref.(*dict).get(n.name); ok {
			return found, nil
		}
		return Value{kind: kindUndefined, ref: n.missing}, nil
	}
	if v.kind == kindString && !v.safe && n.missingOfStr != nil {
		return Value{kind: kindUndefined, ref: n.missingOfStr}, nil
	}
	return st.getattr(v, n.name)
}

// changesDict and changesList name the methods that the sandbox hides.
func changesDict(name string) bool {
	switch name {
	case "clear", "pop", "popitem", "setdefault", "update":
		return true
	}
	return false
}

func changesList(name string) bool {
	switch name {
	case "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove":
		return true
	}
	return false
}

// getattr is v.name: an attribute, else an item of that name.
func (st *state) getattr(v Value, name string) (Value, error) {
	found, ok, err := st.attribute(v, name)
	if ok || err != nil {
		return found, err
	}
	if v.kind == kindDict {
		if found, ok := v.ref.(*dict).get(name); ok {
			return found, nil
		}
	}
	return Value{kind: kindUndefined, ref: &undefined{owner: v.ownerName(), name: name}}, st.alloc(2 * valueBytes)
}

// attribute is an attribute of a value as Python has it.
func (st *state) attribute(v Value, name string) (Value, bool, error) {
	var m *builtin
	switch v.kind {
	case kindUndefined, kindMissing:
		if name != "__class__" { // all else that it has is made to fail
			return Value{}, false, useOf(v)
		}
	case kindObject:
		return v.ref.(object).attr(st, name)
	case kindString:
		if m = stringMethod(name); m == nil && (name == "encode" || name == "translate" || name == "maketrans") {
			return Value{}, false, fmt.Errorf("the method %s is not supported", name)
		}
	case kindDict:
		m = dictMethod(name)
	case kindList:
		m = listMethod(name)
	case kindRange:
		m = tupleMethod(name)
	case kindTuple:
		if l := v.ref.(*list); l.group && (name == "grouper" || name == "list") {
			return l.items[map[string]int{"grouper": 0, "list": 1}[name]], true, nil
		}
		m = tupleMethod(name)
	case kindInt, kindBool, kindFloat:
		return numberAttribute(v, name)
	}
	if m != nil {
		return Value{kind: kindFunc, ref: &bound{m, v}}, true, st.alloc(2 * valueBytes)
	}
	hidden := v.kind == kindDict && changesDict(name) || v.kind == kindList && changesList(name) ||
		strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
	if !hidden {
		return Value{}, false, nil
	}
	hint := "access to attribute " + quote(name) + " of " + quote(v.typeName()) + " object is unsafe."
	return Value{kind: kindUndefined, ref: &undefined{hint: hint, unsafe: true}}, true, st.alloc(4 * valueBytes)
}

// itemNode is a[b].
type itemNode struct{ of, index expr }

func (n *itemNode) eval(f *frame) (Value, error) {
	v, err := n.of.eval(f)
	if err != nil {
		return Value{}, err
	}
	index, err := n.index.eval(f)
	if err != nil {
		return Value{}, err
	}
	return f.st.getitem(v, index)
}

// fieldNode is a['b'].
type fieldNode struct {
	of expr
	*field
}

func (n *fieldNode) eval(f *frame) (Value, error) {
	v, err := n.of.eval(f)
	if err != nil {
		return Value{}, err
	}
	return n.get(f.st, v)
}

// get is v[name]. What many a loop asks for in vain costs nothing.
func (n *field) get(st *state, v Value) (Value, error) {
	switch {
	case v.kind == kindDict:
		if found, ok := v.ref.(*dict).get(n.name); ok {
			return found, nil
		}
		if n.missing != nil {
			return Value{kind: kindUndefined, ref: n.missing}, nil
		}
	case v.kind == kindString && !v.safe && n.missingOfStr != nil:
		return Value{kind: kindUndefined, ref: n.missingOfStr}, nil
	}
	return st.getitem(v, String(n.name))
}

// getitem is v[index]: an item, else an attribute of that name.
func (st *state) getitem(v, index Value) (Value, error) {
	if v.kind == kindUndefined || v.kind == kindMissing {
		return Value{}, useOf(v)
	}
	found, err := st.item(v, index)
	if found.given() || err != nil {
		return found, err
	}
	if !index.isString() {
		text, err := st.repr(index)
		return Value{kind: kindUndefined, ref: &undefined{owner: v.ownerName(), index: text.str}}, err
	}
	found, ok, err := st.attribute(v, index.str)
	if ok || err != nil {
		return found, err
	}
	return Value{kind: kindUndefined, ref: &undefined{owner: v.ownerName(), name: index.str}}, st.alloc(2 * valueBytes)
}

// item is an item of a container, or missing.
func (st *state) item(v, index Value) (Value, error) {
	if v.kind == kindDict {
		d := v.ref.(*dict)
		if err := st.hashable(index); err != nil {
			if errors.Is(err, ErrLimit) {
				return Value{}, err
			}
			return Value{}, nil
		}
		if i := d.find(index); i >= 0 {
			return d.entries[i].value, nil
		}
		return Value{}, nil
	}
	if !index.isInt() || index.isBig() {
		return Value{}, nil
	}
	i := index.int()
	switch v.kind {
	case kindList, kindTuple:
		items := v.items()
		if i < 0 {
			i += int64(len(items))
		}
		if 0 <= i && i < int64(len(items)) {
			return items[i], nil
		}
	case kindRange:
		r := v.ref.(*span)
		if i < 0 {
			i += int64(r.len())
		}
		if 0 <= i && i < int64(r.len()) {
			return r.at(int(i)), nil
		}
	case kindString:
		return st.char(v, i)
	}
	return Value{}, nil
}

// char is a character of a string, or missing.
func (st *state) char(v Value, i int64) (Value, error) {
	if err := st.scan(len(v.str)); err != nil {
		return Value{}, err
	}
	n := int64(utf8.RuneCountInString(v.str))
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return Value{}, nil
	}
	at := byteAt(v.str, int(i), n == int64(len(v.str)))
	_, size := utf8.DecodeRuneInString(v.str[at:])
	return v.cut(at, at+size), nil
}

// byteAt is where the character of a number begins.
func byteAt(s string, n int, ascii bool) int {
	if ascii {
		return min(n, len(s))
	}
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
