package normalize

import "sync"

// scratch is the memory that the steps of one call share.
type scratch struct {
	// texts take turns, since a step reads what the one before it wrote.
	texts         [2][]byte
	turn          int
	items, sorted []item
}

func (s *scratch) nextText() *[]byte {
	s.turn ^= 1
	return &s.texts[s.turn]
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch { return scratches.Get().(*scratch) }

// keptBytes bounds what a scratch holds on to after a large text.
const keptBytes = 8 << 20

func (s *scratch) free() {
	const itemBytes = 8
	if cap(s.texts[0])+cap(s.texts[1])+itemBytes*(cap(s.items)+cap(s.sorted)) <= keptBytes {
		scratches.Put(s)
	}
}
