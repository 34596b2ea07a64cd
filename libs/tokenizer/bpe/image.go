package bpe

import "github.com/switchyard-llm/switchyard/libs/tokenizer/image"

// header holds the fields of a model that are no slices.
type header struct {
	bytes                             [256]uint32
	unk                               uint32
	bytewise, fuse, fallback          bool
	meetingsNone, plain               bool
	pairShift, filterShift, wordShift uint64
	meetingsShift                     uint64
	longest                           int64
}

// PutImage appends the model, without its texts, to an image.
func (m *Model) PutImage(w *image.Writer) {
	s, p, n := &m.symbols, &m.pairs, &m.meetings
	image.PutOne(w, header{
		bytes: s.bytes, unk: s.unk, bytewise: s.bytewise, fuse: s.fuse, fallback: s.fallback,
		meetingsNone: n.none, plain: m.plain, pairShift: uint64(p.shift), filterShift: uint64(p.filterShift),
		wordShift: uint64(m.words.shift), meetingsShift: uint64(n.shift), longest: int64(m.words.longest),
	})
	image.Put(w, s.pages)
	image.Put(w, s.tokens)
	image.Put(w, s.atoms)
	image.Put(w, s.wholes.pages)
	image.Put(w, s.wholes.tokens)
	image.Put(w, p.slots)
	image.Put(w, p.filter)
	image.Put(w, p.merged)
	image.Put(w, p.small)
	image.Put(w, m.words.short)
	image.Put(w, m.words.filter)
	image.Put(w, m.words.long)
	image.PutOne(w, n.ascii)
	image.Put(w, n.others)
}

// GetImage is the model that PutImage put; texts are those that it was made with.
func GetImage(r *image.Reader, texts Texts) *Model {
	h := image.GetOne[header](r)
	m := &Model{texts: texts, plain: h.plain}
	m.symbols = symbols{
		bytewise: h.bytewise, bytes: h.bytes, unk: h.unk, fuse: h.fuse, fallback: h.fallback,
		pages: image.Get[uint16](r), tokens: image.Get[uint32](r), atoms: image.Get[bool](r),
		wholes: wholes{pages: image.Get[uint16](r), tokens: image.Get[uint32](r)},
	}
	m.pairs = pairs{
		shift: uint(h.pairShift), filterShift: uint(h.filterShift),
		slots: image.Get[uint64](r), filter: image.Get[uint64](r), merged: image.Get[uint32](r), small: image.Get[uint32](r),
	}
	m.words = words{
		shift: uint(h.wordShift), longest: int(h.longest),
		short: image.Get[shortWord](r), filter: image.Get[uint64](r), long: image.Get[longWord](r),
	}
	m.meetings = meetings{none: h.meetingsNone, shift: uint(h.meetingsShift), ascii: image.GetOne[asciiPairs](r), others: image.Get[uint64](r)}
	return m
}
