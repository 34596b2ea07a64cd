package hfjson

import (
	"fmt"
	"hash/maphash"

	"github.com/go-json-experiment/json/jsontext"
)

// vocabulary is the vocabulary of a model: texts by id, and a table from texts to ids.
type vocabulary struct {
	texts []string
	// tokens is the number of texts, which holes between ids make smaller than len(texts).
	tokens int
	seed   maphash.Seed // the table of a hostile file must not degenerate
	slots  []slot       // open addressing, at most half full; a power of two long
}

// slot holds an id plus 1, 0 if it is free, and bits of the hash that the place does not tell.
type slot struct{ tag, id uint32 }

// entry is a token while the texts grow in one buffer.
type entry struct{ id, end int }

// readVocabulary reads an object of texts and ids.
func readVocabulary(dec *jsontext.Decoder, path string) (*vocabulary, error) {
	if err := open(dec, path, '{'); err != nil {
		return nil, err
	}
	var text []byte
	var entries []entry
	last := -1
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		text = appendText(text, name)
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		id, err := count(value)
		if err != nil {
			return nil, fmt.Errorf("%s[%q] is %w", path, clip(text[start(entries):]), err)
		}
		last = max(last, id)
		entries = append(entries, entry{id, len(text)})
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	return newVocabulary(path, text, entries, last)
}

func start(entries []entry) int {
	if len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].end
}

// newVocabulary cuts the texts out of one. last is the highest id.
func newVocabulary(path string, text []byte, entries []entry, last int) (*vocabulary, error) {
	// A small file must not ask for much memory by a high id.
	if most := 2*len(entries) + 1<<16; last >= most {
		return nil, fmt.Errorf("%s has %d tokens, but one of id %d: want ids below %d", path, len(entries), last, most)
	}
	v := &vocabulary{texts: make([]string, last+1), tokens: len(entries), seed: maphash.MakeSeed()}
	used := make([]bool, last+1)
	v.grow(len(entries))
	all := string(text)
	from := 0
	for _, e := range entries {
		token, bytes := all[from:e.end], text[from:e.end]
		from = e.end
		if used[e.id] {
			return nil, fmt.Errorf("%s has two tokens of id %d: %q and %q", path, e.id, clip(v.texts[e.id]), clip(token))
		}
		used[e.id], v.texts[e.id] = true, token
		if !v.insert(bytes, e.id) {
			return nil, fmt.Errorf("%s has %q twice", path, clip(token))
		}
	}
	return v, nil
}

// grow makes the table for a number of tokens.
func (v *vocabulary) grow(tokens int) {
	size := 4
	for size < 2*tokens {
		size *= 2
	}
	v.slots = make([]slot, size)
}

// insert adds a token to the table, whose text is at its id, and reports whether its text is new;
// one that is not gets the new id.
func (v *vocabulary) insert(text []byte, id int) bool {
	s, found := v.find(text)
	s.id = uint32(id) + 1
	return !found
}

// find gives the slot of a text, or a free one, with its tag, that it may have.
func (v *vocabulary) find(text []byte) (s *slot, found bool) {
	hash := maphash.Bytes(v.seed, text)
	mask := uint64(len(v.slots) - 1)
	tag := uint32(hash >> 32)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &v.slots[i]
		if s.id == 0 {
			s.tag = tag
			return s, false
		}
		if s.tag == tag && v.texts[s.id-1] == string(text) {
			return s, true
		}
	}
}

// id looks a text up.
func (v *vocabulary) id(text []byte) (id uint32, ok bool) {
	s, found := v.find(text)
	return s.id - 1, found
}
