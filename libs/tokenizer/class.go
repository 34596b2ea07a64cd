package tokenizer

import "unicode"

// class is what a pre-tokenizer sees in a character.
type class uint8

const (
	classOther class = iota
	classLetter
	classNumber
	classSpace
)

// classEnd is above every character that is not of classOther.
const classEnd = 0x33480

// classes holds the class of each character below classEnd. It costs 200 KB and a
// fraction of a millisecond, and makes a look-up one load.
type classes []class

func (c classes) of(r rune) class {
	if int(r) < len(c) {
		return c[r]
	}
	return classOther
}

func newClasses() classes {
	c := make(classes, classEnd)
	c.set(unicode.L, classLetter)
	c.set(newerLetters(), classLetter)
	c.set(unicode.N, classNumber)
	c.set(newerNumbers(), classNumber)
	c.set(unicode.White_Space, classSpace)
	return c
}

func (c classes) set(table *unicode.RangeTable, to class) {
	for _, r := range table.R16 {
		c.setRange(rune(r.Lo), rune(r.Hi), rune(r.Stride), to)
	}
	for _, r := range table.R32 {
		c.setRange(rune(r.Lo), rune(r.Hi), rune(r.Stride), to)
	}
}

func (c classes) setRange(lo, hi, stride rune, to class) {
	for r := lo; r <= hi && int(r) < len(c); r += stride {
		c[r] = to
	}
}

// The reference knows Unicode 16, and the numbers of Unicode 17; Go's unicode
// package is at 15.0. A test compares every character with the reference.

func newerLetters() *unicode.RangeTable {
	return &unicode.RangeTable{
		R16: []unicode.Range16{{Lo: 0x1c89, Hi: 0x1c8a, Stride: 1}, {Lo: 0xa7cb, Hi: 0xa7cd, Stride: 1}, {Lo: 0xa7da, Hi: 0xa7dc, Stride: 1}},
		R32: []unicode.Range32{
			{Lo: 0x105c0, Hi: 0x105f3, Stride: 1}, {Lo: 0x10d4a, Hi: 0x10d65, Stride: 1}, {Lo: 0x10d6f, Hi: 0x10d85, Stride: 1},
			{Lo: 0x10ec2, Hi: 0x10ec4, Stride: 1}, {Lo: 0x11380, Hi: 0x11389, Stride: 1}, {Lo: 0x1138b, Hi: 0x1138b, Stride: 1},
			{Lo: 0x1138e, Hi: 0x1138e, Stride: 1}, {Lo: 0x11390, Hi: 0x113b5, Stride: 1}, {Lo: 0x113b7, Hi: 0x113b7, Stride: 1},
			{Lo: 0x113d1, Hi: 0x113d1, Stride: 1}, {Lo: 0x113d3, Hi: 0x113d3, Stride: 1}, {Lo: 0x11bc0, Hi: 0x11be0, Stride: 1},
			{Lo: 0x13460, Hi: 0x143fa, Stride: 1}, {Lo: 0x16100, Hi: 0x1611d, Stride: 1}, {Lo: 0x16d40, Hi: 0x16d6c, Stride: 1},
			{Lo: 0x18cff, Hi: 0x18cff, Stride: 1}, {Lo: 0x1e5d0, Hi: 0x1e5ed, Stride: 1}, {Lo: 0x1e5f0, Hi: 0x1e5f0, Stride: 1},
			{Lo: 0x2ebf0, Hi: 0x2ee5d, Stride: 1},
		},
	}
}

func newerNumbers() *unicode.RangeTable {
	return &unicode.RangeTable{R32: []unicode.Range32{
		{Lo: 0x10d40, Hi: 0x10d49, Stride: 1}, {Lo: 0x116d0, Hi: 0x116e3, Stride: 1}, {Lo: 0x11bf0, Hi: 0x11bf9, Stride: 1},
		{Lo: 0x11de0, Hi: 0x11de9, Stride: 1}, {Lo: 0x16130, Hi: 0x16139, Stride: 1}, {Lo: 0x16d70, Hi: 0x16d79, Stride: 1},
		{Lo: 0x16ff4, Hi: 0x16ff6, Stride: 1}, {Lo: 0x1ccf0, Hi: 0x1ccf9, Stride: 1}, {Lo: 0x1e5f1, Hi: 0x1e5fa, Stride: 1},
	}}
}
