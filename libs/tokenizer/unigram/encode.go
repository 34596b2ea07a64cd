package unigram

import "unicode/utf8"

// Scratch is the memory of Append. It may be used for one call at a time, of any models.
type Scratch struct{ best []step }

// step is the best way found to a place in the text: its last piece.
type step struct {
	score float64
	start int32
	// id is the piece, unknown for what has none; unreached: no way is found yet.
	id int32
}

const (
	unreached = -2
	// unknown is the id of a character without a piece where the model has no unknown piece.
	unknown = -1
)

// MaxTextBytes is the length of the longest text that Append takes.
const MaxTextBytes = 1<<31 - 2

// Append appends the ids of the most probable pieces of text, which is valid UTF-8. A run of characters
// without a piece is one unknown piece, or if the model has them, the pieces of its bytes. A model
// without an unknown piece drops what it cannot write; the reference fails then.
//
// It takes time in the length of text times that of the longest piece, and allocates nothing but what dst
// and the scratch grow by. It panics if text is longer than MaxTextBytes.
func (m *Model) Append(dst []uint32, text string, s *Scratch) []uint32 {
	if text == "" {
		return dst
	}
	if len(text) > MaxTextBytes {
		panic("unigram: the text is too long")
	}
	m.search(text, s)
	return m.appendPath(dst, text, s.path(len(text)))
}

// search fills s.best with the best way to each place in the text.
func (m *Model) search(text string, s *Scratch) {
	s.reset(len(text))
	for start := 0; start < len(text); {
		width := 1
		if text[start] >= utf8.RuneSelf {
			_, width = utf8.DecodeRuneInString(text[start:])
		}
		if !m.extend(text, start, width, s.best) {
			reach(&s.best[start+width], m.unkScore+s.best[start].score, start, int32(m.unk))
		}
		start += width
	}
}

// extend goes on from start with each piece that the text has there. It reports whether one of them is
// the first character alone.
func (m *Model) extend(text string, start, width int, best []step) (single bool) {
	till := best[start].score
	at := m.trie.root
	units := m.trie.units
	for end := start; end < len(text); {
		slot := at ^ uint32(text[end])
		if slot >= uint32(len(units)) || units[slot].parent != at {
			break
		}
		u := units[slot]
		at = u.base &^ isPiece
		end++
		if u.base&isPiece == 0 {
			continue
		}
		id := m.trie.ids[slot]
		reach(&best[end], m.scores[id]+till, start, id)
		single = single || end-start == width
	}
	return single
}

// reach takes a way to a place if it is better than the best so far: the first of equals stays.
func reach(to *step, score float64, start int, id int32) {
	if to.id == unreached || score > to.score {
		*to = step{score: score, start: int32(start), id: id}
	}
}

func (s *Scratch) reset(n int) {
	if cap(s.best) <= n {
		s.best = make([]step, n+1+n/2)
	}
	s.best = s.best[:n+1]
	for i := range s.best {
		s.best[i].id = unreached
	}
	s.best[0].score = 0
}

// path returns the steps of the best way to n, in the order of the text. It moves them to the end of
// s.best, which is never before where the next one stands.
func (s *Scratch) path(n int) []step {
	first := len(s.best)
	for at := n; at > 0; {
		st := s.best[at]
		first--
		s.best[first] = st
		at = int(st.start)
	}
	return s.best[first:]
}

// appendPath appends the ids of the path's steps, with each run of unknown ones taken together.
func (m *Model) appendPath(dst []uint32, text string, path []step) []uint32 {
	for i := 0; i < len(path); {
		if int(path[i].id) != m.unk {
			dst = append(dst, uint32(path[i].id))
			i++
			continue
		}
		start, end := int(path[i].start), len(text)
		for i++; i < len(path); i++ {
			if int(path[i].id) != m.unk {
				end = int(path[i].start)
				break
			}
		}
		dst = m.appendUnknown(dst, text[start:end])
	}
	return dst
}

// appendUnknown appends what stands for a run of unknown characters. It may be a piece as a whole, as the
// text of the unknown piece itself is.
func (m *Model) appendUnknown(dst []uint32, run string) []uint32 {
	if id := m.trie.find(run); id >= 0 {
		return append(dst, uint32(id))
	}
	if m.bytes != nil && m.coversBytes(run) {
		for i := range len(run) {
			dst = append(dst, uint32(m.bytes[run[i]]))
		}
		return dst
	}
	if m.unk < 0 {
		return dst
	}
	return append(dst, uint32(m.unk))
}

// coversBytes reports whether all bytes of a run have a piece.
func (m *Model) coversBytes(run string) bool {
	for i := range len(run) {
		if m.bytes[run[i]] < 0 {
			return false
		}
	}
	return true
}
