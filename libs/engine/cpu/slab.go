package cpu

import (
	"iter"

	"github.com/switchyard-llm/switchyard/libs/engine"
)

// slabRows bounds the rows that go through the layers together, and with them
// the scratch memory and the time between two looks at the context.
const slabRows = 256

// span is a run of rows of one segment within a slab.
type span struct {
	segment  *engine.Segment
	first    int // row of the slab
	rows     int
	offset   int // of the first token within the segment
	position int // of the first token within the sequence
}

// last reports whether the span ends its segment.
func (s *span) last() bool { return s.offset+s.rows == len(s.segment.Tokens) }

// slab is at most slabRows rows of a batch.
type slab struct {
	spans []span
	rows  int
}

// placed tells whoever asked that a layer's keys and values are in their blocks.
func (s *slab) placed(layer int) {
	for i := range s.spans {
		if sp := &s.spans[i]; sp.segment.Placed != nil {
			sp.segment.Placed(layer, sp.position, sp.position+sp.rows)
		}
	}
}

// slabs cuts a batch into slabs of full size, in order: what a later one reads
// of a sequence, an earlier one has written.
func slabs(b *engine.Batch, size int) iter.Seq[slab] {
	return func(yield func(slab) bool) {
		var s slab
		for i := range b.Segments {
			segment := &b.Segments[i]
			for offset := 0; offset < len(segment.Tokens); {
				n := min(size-s.rows, len(segment.Tokens)-offset)
				s.spans = append(s.spans, span{segment, s.rows, n, offset, segment.Start + offset})
				s.rows += n
				offset += n
				if s.rows == size {
					if !yield(s) {
						return
					}
					s = slab{spans: s.spans[:0]}
				}
			}
		}
		if s.rows > 0 {
			yield(s)
		}
	}
}
