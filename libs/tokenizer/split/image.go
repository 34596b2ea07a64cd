package split

import "github.com/switchyard-llm/switchyard/libs/tokenizer/image"

// levelHeader holds the fields of a level that are no slices.
type levelHeader struct {
	ascii    [128]uint8
	shift    uint64
	end      int64
	behavior behavior
	invert   bool
}

// PutImage appends the splitter to an image.
func (s *Splitter) PutImage(w *image.Writer) {
	image.PutOne(w, int64(len(s.levels)))
	for _, l := range s.levels {
		image.PutOne(w, levelHeader{ascii: l.a.ascii, shift: uint64(l.a.shift), end: int64(l.a.end), behavior: l.behavior, invert: l.invert})
		image.Put(w, l.a.pages[:])
		image.Put(w, l.a.classes)
		image.Put(w, l.a.next)
	}
}

// GetImage is the splitter that PutImage put.
func GetImage(r *image.Reader) *Splitter {
	s := &Splitter{}
	for range min(image.GetOne[int64](r), maxLevels) {
		h := image.GetOne[levelHeader](r)
		a := &automaton{ascii: h.ascii, shift: uint(h.shift), end: int(h.end)}
		copy(a.pages[:], image.Get[uint16](r))
		a.classes, a.next = image.Get[uint8](r), image.Get[transition](r)
		if r.Err() != nil {
			return s
		}
		a.runs.build(a)
		s.append(level{a: a, behavior: h.behavior, invert: h.invert})
	}
	s.noteBorders()
	return s
}
