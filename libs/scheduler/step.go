package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/sampling"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// step makes one step; false means that there was nothing to compute.
func (s *Scheduler) step(ctx context.Context) bool {
	s.join()
	batch, members := s.form()
	if len(members) == 0 {
		return false
	}
	begin := time.Now()
	err := s.exec.Step(ctx, batch)
	busy := time.Since(begin)
	if err != nil {
		s.stepFailed(ctx, members, err)
		return true
	}
	s.account(members, batch, busy)
	for i, q := range members {
		s.deliver(q, &batch.Segments[i])
	}
	s.compact()
	return true
}

// join takes in what was started, in the order of priority and start, and drops what was cancelled.
func (s *Scheduler) join() {
	s.mu.Lock()
	for _, q := range s.joining {
		s.running = q.lineUp(s.running)
	}
	clear(s.joining)
	s.joining = s.joining[:0]
	var dropped []*Sequence
	for _, q := range s.running {
		if q.cancelled && q.state == started {
			dropped = append(dropped, q)
		}
	}
	s.mu.Unlock()
	for _, q := range dropped {
		if s.leave(q) {
			q.sink.End(sequence.FinishCancelled, nil)
		}
	}
	if len(dropped) > 0 {
		s.compact()
	}
}

// turn answers whom the next step is for: the sequences that share steps or, every second
// time, the first of those that run alone.
func (s *Scheduler) turn() []*Sequence {
	i := slices.IndexFunc(s.running, (*Sequence).alone)
	if i < 0 {
		return s.running
	}
	if s.aloneLast {
		shared := slices.DeleteFunc(slices.Clone(s.running), (*Sequence).alone)
		if s.aloneLast = len(shared) == 0; !s.aloneLast {
			return shared
		}
	}
	s.aloneLast = true
	return s.running[i : i+1]
}

// form picks what the next step computes: first one token of every decoding sequence,
// so that prompts never hold them up longer than one step, then prompts, by priority and then
// oldest first.
func (s *Scheduler) form() (*engine.Batch, []*Sequence) {
	turn := s.turn()
	for _, q := range turn {
		s.rematch(q)
	}
	batch, members := &engine.Batch{}, make([]*Sequence, 0, len(turn))
	budget := s.cfg.StepTokens
	for _, decoding := range []bool{true, false} {
		for _, q := range turn {
			missing := len(q.tokens) - q.table.Len()
			if (missing == 1) != decoding || budget == 0 || !q.begun && s.underWay(q, batch, members) {
				continue
			}
			n := min(missing, budget)
			segment, err := s.segment(q, n)
			if err != nil {
				s.end(q, err)
				continue
			}
			if n == missing {
				segment.Logits = s.logitsRow(len(members))
			}
			budget -= n
			q.begun = true
			batch.Segments = append(batch.Segments, segment)
			members = append(members, q)
		}
	}
	return batch, members
}

func (s *Scheduler) segment(q *Sequence, n int) (engine.Segment, error) {
	from := q.table.Len()
	if err := q.table.Extend(from + n); err != nil {
		return engine.Segment{}, fmt.Errorf("open blocks up to position %d of %s: %w", from+n, q.spec.RequestID, err)
	}
	return engine.Segment{
		Tokens: q.tokens[from : from+n], Start: from, Root: q.opt.Root, Blocks: q.table.Blocks(), Placed: q.opt.Placed,
	}, nil
}

// logitsRow is the i-th of the rows that are kept from step to step.
func (s *Scheduler) logitsRow(i int) []float32 {
	for len(s.logits) <= i {
		s.logits = append(s.logits, nil)
	}
	if s.logits[i] == nil {
		s.logits[i] = make([]float32, s.card.Logits())
	}
	return s.logits[i]
}

// deliver books the rows of a segment and, at the end of what is known, draws the next token.
func (s *Scheduler) deliver(q *Sequence, segment *engine.Segment) {
	if err := q.table.Advance(segment.Tokens); err != nil {
		s.end(q, fmt.Errorf("advance %s: %w", q.spec.RequestID, err))
		return
	}
	if segment.Logits == nil {
		return
	}
	token, probs, err := s.draw(q, segment.Logits)
	if err != nil {
		s.end(q, fmt.Errorf("draw token %d of %s: %w", len(q.tokens), q.spec.RequestID, err))
		return
	}
	q.tokens = append(q.tokens, token)
	q.history.Add(token)
	q.sink.Token(token, probs)
	reason := q.finished(token, s.card.ContextTokens)
	if (reason != sequence.Unfinished || q.opt.PromptOnly) && s.leave(q) {
		q.sink.End(reason, nil)
	}
}

// draw draws the token after those that are known, and tells how likely it was if that is asked for.
func (s *Scheduler) draw(q *Sequence, logits []float32) (token sequence.Token, probs *sequence.LogProbs, err error) {
	at := sampling.Turn{Choice: q.spec.Choice, Position: len(q.tokens), History: q.history}
	if len(q.tokens)-len(q.spec.Prompt) < q.spec.MinTokens {
		at.Banned = q.spec.StopTokens
	}
	if token, err = s.sampler.Draw(logits, q.spec.Sampling, at); err == nil && q.spec.LogProbs {
		probs, err = sampling.LogProbs(logits, token, q.spec.TopLogProbs)
	}
	return token, probs, err
}

// stepFailed ends every sequence of the batch: none of its results may be used.
func (s *Scheduler) stepFailed(ctx context.Context, members []*Sequence, err error) {
	if ctx.Err() == nil {
		s.log.Error("step failed", "error", err, "sequences", len(members))
	}
	for _, q := range members {
		s.end(q, fmt.Errorf("compute %s: %w", q.spec.RequestID, err))
	}
	s.compact()
}

// end ends a sequence with an error.
func (s *Scheduler) end(q *Sequence, err error) {
	if s.leave(q) {
		q.sink.End(sequence.FinishError, err)
	}
}

// leave takes a sequence out; false if it had left already. Exactly one caller is
// answered true: it calls the sink's End.
func (s *Scheduler) leave(q *Sequence) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.state == ended {
		return false
	}
	q.state = ended
	s.active -= q.counted
	s.missing -= q.missing
	if !q.opt.PromptOnly {
		q.table.Release()
		s.admitted--
		s.admit(time.Now())
	}
	return true
}

// compact forgets the sequences that have left.
func (s *Scheduler) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.running[:0]
	for _, q := range s.running {
		if q.state == started {
			kept = append(kept, q)
		}
	}
	clear(s.running[len(kept):])
	s.running = kept
}
