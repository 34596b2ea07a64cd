package bpe

import (
	"math/bits"
	"unicode/utf8"
)

// words finds the pieces that are one token: those that merge to it, or with IgnoreMerges all.
type words struct {
	short   []shortWord // open-addressed, at most half full; of pieces that are keys
	shift   uint
	filter  []uint64   // a Bloom filter with one function, as in pairs
	long    []longWord // open-addressed, at most half full
	longest int        // in bytes
}

// shortWord is empty if its key is 0.
type shortWord struct {
	low, high uint64
	token     uint32
}

// longWord is empty if its hash is 0.
type longWord struct {
	hash  uint64
	token uint32
}

// filterBits is how many bits of the filter there are for each slot.
const filterBits = 4

func (w *words) build(m *Model, hidden func(id uint32) bool, ignoreMerges bool) {
	size := bits.Len(uint(m.texts.Len()*5/4 + 1))
	w.short, w.shift = make([]shortWord, 1<<size), uint(64-size)
	w.filter = make([]uint64, max(1<<size*filterBits/64, 1))
	var s Scratch
	var long []uint32
	for id := range uint32(m.texts.Len()) {
		text := m.texts.At(id)
		if text == "" || !utf8.ValidString(text) || hidden(id) || !ignoreMerges && !m.mergesTo(text, id, &s) {
			continue
		}
		w.longest = max(w.longest, len(text))
		if len(text) > keyBytes {
			long = append(long, id)
			continue
		}
		w.putShort(text, id)
	}
	w.long = make([]longWord, 1<<bits.Len(uint(2*len(long)+1)))
	for _, id := range long {
		w.putLong(hashLong(m.texts.At(id)), id)
	}
}

func (w *words) putShort(text string, id uint32) {
	low, high := key(text)
	h := mix(low, high)
	f := w.bit(h)
	w.filter[f>>6] |= 1 << (f & 63)
	at := int(h >> w.shift)
	for w.short[at].high != 0 {
		at = (at + 1) & (len(w.short) - 1)
	}
	w.short[at] = shortWord{low, high, id}
}

func (w *words) putLong(h uint64, id uint32) {
	at := int(h) & (len(w.long) - 1)
	for w.long[at].hash != 0 {
		at = (at + 1) & (len(w.long) - 1)
	}
	w.long[at] = longWord{h, id}
}

// bit is the place of a hash in the filter.
func (w *words) bit(h uint64) uint64 { return h >> 8 & uint64(len(w.filter)*64-1) }

func (m *Model) mergesTo(text string, id uint32, s *Scratch) bool {
	s.symbols = m.symbols.append(s.symbols[:0], text)
	s.tokens = m.merge(s.tokens[:0], s.symbols, s)
	return len(s.tokens) == 1 && s.tokens[0] == id
}

func (w *words) find(piece string, texts *Texts) (id uint32, ok bool) {
	if len(piece) > w.longest {
		return 0, false
	}
	if len(piece) > keyBytes {
		return w.findLong(piece, texts)
	}
	low, high := key(piece)
	h := mix(low, high)
	if f := w.bit(h); w.filter[f>>6]>>(f&63)&1 == 0 {
		return 0, false
	}
	for at := int(h >> w.shift); ; at = (at + 1) & (len(w.short) - 1) {
		s := &w.short[at]
		if s.low == low && s.high == high {
			return s.token, true
		}
		if s.high == 0 {
			return 0, false
		}
	}
}

func (w *words) findLong(piece string, texts *Texts) (id uint32, ok bool) {
	h := hashLong(piece)
	for at := int(h) & (len(w.long) - 1); ; at = (at + 1) & (len(w.long) - 1) {
		s := &w.long[at]
		if s.hash == h && texts.At(s.token) == piece {
			return s.token, true
		}
		if s.hash == 0 {
			return 0, false
		}
	}
}
