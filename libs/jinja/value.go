package jinja

import (
	"math"
	"math/big"
)

// Value is a value of the template language. The zero Value is no value at all: an
// argument or variable that was not given.
type Value struct {
	kind kind
	safe bool   // a string of the filters safe and escape: Python's Markup
	prov prov   // of strings, numbers, bools and none; nothing else is printed as it is
	num  uint64 // of a bool, an int64 or a float64
	str  string
	ref  any // what else the kind says
}

type kind uint8

const (
	kindMissing   kind = iota
	kindUndefined      // ref is *undefined
	kindNone
	kindBool
	kindInt // ref is a *big.Int if the number needs one
	kindFloat
	kindString // ref is *marks if the provenance is mixed
	kindList   // ref is *list
	kindTuple  // ref is *list
	kindDict   // ref is *dict
	kindView   // ref is *view
	kindRange  // ref is *span
	kindIter   // ref is *generator
	kindObject // ref is object
	kindFunc   // ref is *bound
)

type list struct {
	items []Value
	group bool // a pair of groupby, which has attributes
}

// undefined says why a value is not defined, for the error of whoever uses it.
type undefined struct {
	hint   string
	owner  string // the type that lacks it, as in 'dict object'
	name   string
	index  string // Python's notation of an element that is no name
	unsafe bool   // the sandbox hides it
}

func (u *undefined) message() string {
	switch {
	case u.hint != "":
		return u.hint
	case u.owner == "":
		return quote(u.name) + " is undefined"
	case u.index != "":
		return u.owner + " has no element " + u.index
	}
	return quote(u.owner) + " has no attribute " + quote(u.name)
}

// None is Python's None.
func None() Value { return Value{kind: kindNone} }

// Bool is True or False.
func Bool(b bool) Value {
	if b {
		return Value{kind: kindBool, num: 1}
	}
	return Value{kind: kindBool}
}

// Int is an integer.
func Int(i int64) Value { return Value{kind: kindInt, num: uint64(i)} }

// BigInt is an integer of any size.
func BigInt(i *big.Int) Value {
	if i.IsInt64() {
		return Int(i.Int64())
	}
	return Value{kind: kindInt, ref: i}
}

// Float is a floating point number.
func Float(f float64) Value { return Value{kind: kindFloat, num: math.Float64bits(f)} }

// String is a text that may be trusted, such as the text of a control token.
func String(s string) Value { return Value{kind: kindString, str: s} }

// Chat is a text that came out of the chat.
func Chat(s string) Value { return Value{kind: kindString, str: s, prov: ofChat} }

// List is a list; the Value keeps the items.
func List(items []Value) Value { return Value{kind: kindList, ref: &list{items: items}} }

func tuple(items ...Value) Value { return Value{kind: kindTuple, ref: &list{items: items}} }

// OfChat is a value that prints as text of the chat: a number, a bool, none or a text.
func (v Value) OfChat() Value { return v.withProv(ofChat) }

// AsString is the text of a string. ok is false for other values.
func (v Value) AsString() (s string, ok bool) { return v.str, v.kind == kindString }

func (v Value) withProv(p prov) Value {
	v.prov = p
	if v.kind == kindString {
		v.ref = nil
	}
	return v
}

func (v Value) items() []Value   { return v.ref.(*list).items }
func (v Value) float() float64   { return math.Float64frombits(v.num) }
func (v Value) int() int64       { return int64(v.num) }
func (v Value) isNumber() bool   { return v.kind == kindInt || v.kind == kindFloat || v.kind == kindBool }
func (v Value) isInt() bool      { return v.kind == kindInt || v.kind == kindBool }
func (v Value) isBig() bool      { return v.kind == kindInt && v.ref != nil }
func (v Value) isString() bool   { return v.kind == kindString }
func (v Value) given() bool      { return v.kind != kindMissing }
func (v Value) isNone() bool     { return v.kind == kindNone }
func (v Value) isSequence() bool { return v.kind == kindList || v.kind == kindTuple }

// absent reports whether an optional argument was left out or is None.
func (v Value) absent() bool { return v.kind == kindMissing || v.kind == kindNone }

// truth is Python's bool().
func (v Value) truth() bool {
	switch v.kind {
	case kindMissing, kindUndefined, kindNone:
		return false
	case kindBool:
		return v.num != 0
	case kindInt:
		return v.num != 0 || v.ref != nil
	case kindFloat:
		return v.float() != 0
	case kindString:
		return v.str != ""
	case kindList, kindTuple:
		return len(v.items()) > 0
	case kindDict:
		return v.ref.(*dict).len() > 0
	case kindView:
		return v.ref.(*view).d.len() > 0
	case kindRange:
		return v.ref.(*span).len() > 0
	}
	return true
}

// typeName is the name of the value's class in Python.
func (v Value) typeName() string {
	switch v.kind {
	case kindUndefined, kindMissing:
		return "Undefined"
	case kindNone:
		return "NoneType"
	case kindBool:
		return "bool"
	case kindInt:
		return "int"
	case kindFloat:
		return "float"
	case kindString:
		if v.safe {
			return "Markup"
		}
		return "str"
	case kindList:
		return "list"
	case kindTuple:
		return "tuple"
	case kindDict:
		return "dict"
	case kindView:
		return v.ref.(*view).typeName()
	case kindRange:
		return "range"
	case kindIter:
		return v.ref.(*generator).typeName
	case kindObject:
		return v.ref.(object).typeName()
	}
	return v.ref.(*bound).typeName()
}

// ownerName is how Jinja names the value's type in messages about attributes.
func (v Value) ownerName() string {
	if v.kind == kindNone {
		return "None"
	}
	if v.safe {
		return "markupsafe.Markup object"
	}
	if v.kind == kindObject {
		return v.ref.(object).module() + "." + v.typeName() + " object"
	}
	return v.typeName() + " object"
}
