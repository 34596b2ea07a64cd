package jinja

import (
	"iter"
	"slices"
)

// prov says who wrote a text.
type prov uint8

const (
	ofTemplate prov = iota
	ofChat
	mixed // runs tell
)

// run is a stretch of a text of mixed provenance, from where the one before ends.
type run struct {
	end  int
	chat bool
}

type runs []run

// marks are the runs of a text; neighbours differ, and there are at least two. They are
// shared with the text that it was cut out of, from base on.
type marks struct {
	runs runs
	base int
}

const runBytes = 16 // of memory

// Text is what a template wrote.
type Text struct{ v Value }

func (t Text) String() string { return t.v.str }

// All yields the stretches of the text in order, none of them empty, neighbours of different
// origin. trusted ones come out of the template, or out of trusted variables.
func (t Text) All() iter.Seq2[string, bool] {
	return func(yield func(text string, trusted bool) bool) {
		for text, chat := range t.v.pieces() {
			if !yield(text, !chat) {
				return
			}
		}
	}
}

// pieces yields the runs of a string.
func (v Value) pieces() iter.Seq2[string, bool] {
	return func(yield func(text string, chat bool) bool) {
		if v.prov != mixed {
			if v.str != "" {
				yield(v.str, v.prov == ofChat)
			}
			return
		}
		m, start := v.ref.(*marks), 0
		for _, r := range m.runs {
			end := min(r.end-m.base, len(v.str))
			if !yield(v.str[start:end], r.chat) {
				return
			}
			start = end
		}
	}
}

// cut is v[i:j] by bytes, of a string.
func (v Value) cut(i, j int) Value {
	out := Value{kind: kindString, str: v.str[i:j], prov: v.prov}
	if v.prov != mixed {
		return out
	}
	if i == j {
		out.prov = ofTemplate
		return out
	}
	m := v.ref.(*marks)
	first := m.at(i)
	last := first + (&marks{m.runs[first:], m.base}).at(j-1)
	if first == last {
		out.prov = provOf(m.runs[first].chat)
		return out
	}
	out.ref = &marks{m.runs[first : last+1], m.base + i}
	return out
}

// at is the run that a byte is in.
func (m *marks) at(i int) int {
	n, _ := slices.BinarySearchFunc(m.runs, i+m.base, func(r run, at int) int { return r.end - at - 1 })
	return n
}

func provOf(chat bool) prov {
	if chat {
		return ofChat
	}
	return ofTemplate
}

// join is the provenance of what is made of two things at once.
func (p prov) join(q prov) prov {
	if p == ofTemplate && q == ofTemplate {
		return ofTemplate
	}
	return ofChat
}

// Len is the number of stretches that All yields.
func (t Text) Len() int {
	switch {
	case t.v.str == "":
		return 0
	case t.v.prov != mixed:
		return 1
	}
	return len(t.v.ref.(*marks).runs)
}
