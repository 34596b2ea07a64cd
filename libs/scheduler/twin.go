package scheduler

import (
	"slices"

	"github.com/switchyard-llm/switchyard/libs/engine"
)

// A prompt that waits for its turn may share a beginning with one that is computed meanwhile:
// of a burst of equal prompts the first is computed, and the others find it done.

// rematch lets a prompt that was not begun have what others have computed since it was admitted.
func (s *Scheduler) rematch(q *Sequence) {
	if q.begun {
		return
	}
	from := q.table.Len()
	rows := q.table.Rematch()
	if rows == 0 {
		return
	}
	if q.opt.Placed != nil {
		for layer := range s.card.Layout.Layers {
			q.opt.Placed(layer, from, from+rows)
		}
	}
	q.Imported(rows)
}

// underWay says whether the batch computes the very block that a prompt lacks next, so that the
// prompt does better to wait for it.
func (s *Scheduler) underWay(q *Sequence, batch *engine.Batch, members []*Sequence) bool {
	from := q.table.Len()
	to := from + s.card.Layout.BlockTokens
	if to >= q.spec.Len() { // it is no whole block, or the last token, which is always computed
		return false
	}
	for i, other := range members {
		segment := &batch.Segments[i]
		if segment.Start+len(segment.Tokens) <= from || segment.Start >= to || len(other.tokens) < to || other.opt.Namespace != q.opt.Namespace {
			continue
		}
		if slices.Equal(other.tokens[from:to], q.tokens[from:to]) && slices.Equal(other.tokens[:from], q.tokens[:from]) {
			return true
		}
	}
	return false
}
