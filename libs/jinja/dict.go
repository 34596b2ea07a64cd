package jinja

import (
	"math"
	"strings"
)

// dict is Python's: it keeps the order in which its keys came, and 1, 1.0 and True are
// one key.
type dict struct {
	entries []entry
	index   map[hash]int // of the entries, once there are many
}

type entry struct{ key, value Value }

// hash tells keys apart as Python does; tuples are written out.
type hash struct {
	kind kind
	num  uint64
	str  string
}

const (
	indexedFrom = 9  // entries; fewer are faster to walk
	entryBytes  = 96 // of memory
	valueBytes  = 48
	indexBytes  = 64
)

func (d *dict) len() int { return len(d.entries) }

// Dict builds a dict; the zero Dict is empty.
type Dict struct{ d dict }

// Grow makes room for n fields.
func (d *Dict) Grow(n int) { d.d.entries = make([]entry, 0, n) }

// Set sets a field. chat says that its name came out of the chat.
func (d *Dict) Set(name string, chat bool, v Value) {
	d.d.set(Value{kind: kindString, str: name, prov: provOf(chat)}, v)
}

// Value is the dict, which must not be changed afterwards.
func (d *Dict) Value() Value { return Value{kind: kindDict, ref: &d.d} }

// maxKeyDepth bounds tuples within tuples that are keys.
const maxKeyDepth = 8

// hashable is the error for a value that cannot be a key. It pays for the hash of one
// that can.
func (st *state) hashable(v Value) error {
	if v.kind == kindString {
		return nil
	}
	return st.hashableAt(v, 0)
}

func (st *state) hashableAt(v Value, depth int) error {
	switch v.kind {
	case kindList, kindDict, kindView:
		return typeError("unhashable type: " + quote(v.typeName()))
	case kindTuple:
		if depth == maxKeyDepth {
			return limitError("a key nests too deep")
		}
		for _, item := range v.items() {
			if err := st.hashableAt(item, depth+1); err != nil {
				return err
			}
		}
	}
	if depth == 0 {
		return nil
	}
	return st.alloc(4 * depth * (len(v.str) + 32)) // each tuple around it writes it out again
}

func hashOf(v Value) hash {
	switch v.kind {
	case kindString:
		return hash{kind: kindString, str: v.str}
	case kindBool:
		return hash{kind: kindInt, num: v.num}
	case kindInt:
		if v.isBig() {
			return hash{kind: kindInt, str: bigOf(v).String()}
		}
		return hash{kind: kindInt, num: v.num}
	case kindFloat:
		f := v.float()
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return hash{kind: kindInt, num: uint64(int64(f))}
		}
		return hash{kind: kindFloat, num: v.num}
	case kindTuple:
		return hash{kind: kindTuple, str: hashText(v)}
	}
	return hash{kind: v.kind}
}

// hashText writes a tuple so that equal ones, and no others, are written alike.
func hashText(v Value) string {
	if v.kind != kindTuple {
		h := hashOf(v)
		return string(rune(h.kind)) + string([]byte{
			byte(h.num), byte(h.num >> 8), byte(h.num >> 16), byte(h.num >> 24), byte(h.num >> 32), byte(h.num >> 40), byte(h.num >> 48), byte(h.num >> 56),
		}) + h.str
	}
	var b strings.Builder
	for _, item := range v.items() {
		text := hashText(item)
		b.WriteString(Int(int64(len(text))).plain() + ":" + text)
	}
	return b.String()
}

// find is where the entry of a key is, or -1.
func (d *dict) find(key Value) int {
	if key.kind == kindString && d.index == nil {
		return d.findName(key.str)
	}
	h := hashOf(key)
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return i
		}
		return -1
	}
	for i := range d.entries {
		if hashOf(d.entries[i].key) == h {
			return i
		}
	}
	return -1
}

func (d *dict) findName(name string) int {
	if d.index != nil {
		if i, ok := d.index[hash{kind: kindString, str: name}]; ok {
			return i
		}
		return -1
	}
	for i := range d.entries {
		if k := &d.entries[i].key; k.kind == kindString && k.str == name {
			return i
		}
	}
	return -1
}

// set keeps the first of equal keys, and its place, as Python does.
func (d *dict) set(key, v Value) {
	if i := d.find(key); i >= 0 {
		d.entries[i].value = v
		return
	}
	d.entries = append(d.entries, entry{key, v})
	switch {
	case d.index != nil:
		d.index[hashOf(key)] = len(d.entries) - 1
	case len(d.entries) >= indexedFrom:
		d.index = make(map[hash]int, 2*len(d.entries))
		for i := range d.entries {
			d.index[hashOf(d.entries[i].key)] = i
		}
	}
}

// put is set for a dict that a template builds.
func (d *dict) put(st *state, key, v Value) error {
	if err := st.hashable(key); err != nil {
		return err
	}
	if err := st.alloc(2 * (entryBytes + indexBytes)); err != nil {
		return err
	}
	d.set(key, v)
	return nil
}

func (d *dict) get(name string) (Value, bool) {
	if i := d.findName(name); i >= 0 {
		return d.entries[i].value, true
	}
	return Value{}, false
}

// view is what keys, values and items of a dict are.
type view struct {
	d    *dict
	what viewOf
}

type viewOf uint8

const (
	viewKeys viewOf = iota
	viewValues
	viewItems
)

func (v *view) typeName() string {
	return [...]string{"dict_keys", "dict_values", "dict_items"}[v.what]
}

func (v *view) at(i int) Value {
	switch e := &v.d.entries[i]; v.what {
	case viewKeys:
		return e.key
	case viewValues:
		return e.value
	default:
		return tuple(e.key, e.value)
	}
}

// span is a range.
type span struct {
	start, stop, step int64
	prov              prov // of its numbers
}

func (s *span) len() int {
	switch {
	case s.step > 0 && s.start < s.stop:
		return int((uint64(s.stop-s.start)-1)/uint64(s.step)) + 1
	case s.step < 0 && s.start > s.stop:
		return int((uint64(s.start-s.stop)-1)/uint64(-s.step)) + 1
	}
	return 0
}

func (s *span) at(i int) Value { return smallInt(s.start+int64(i)*s.step, s.prov) }
