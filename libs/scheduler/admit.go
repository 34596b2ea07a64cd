package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sampling"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Submit puts a sequence into the waiting line; the report counts it from then on. The
// caller must Wait for its admission. The sink is not called before the sequence is started.
//
// Errors: one that names the field for a sequence that can never run here, ErrBusy, ErrClosed.
func (s *Scheduler) Submit(spec sequence.Spec, sink Sink, opt Options) (*Sequence, error) {
	if err := s.check(&spec); err != nil {
		return nil, err
	}
	q := &Sequence{
		sched: s, spec: spec, sink: sink, opt: opt,
		since: time.Now(), admitted: make(chan struct{}),
		tokens: append(slices.Clone(spec.Prompt), spec.Generated...),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return nil, s.closed
	}
	s.waiting = q.lineUp(s.waiting)
	s.admit(q.since)
	if i := slices.Index(s.waiting, q); i >= 0 && len(s.waiting) > s.cfg.Waiting {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return nil, ErrBusy
	}
	return q, nil
}

// lineUp puts q behind those in line of its own priority, or a lower number.
func (q *Sequence) lineUp(line []*Sequence) []*Sequence {
	i := len(line)
	for i > 0 && line[i-1].spec.Priority > q.spec.Priority {
		i--
	}
	return slices.Insert(line, i, q)
}

// Wait waits until the pool has room for the whole sequence and has booked it; sequences
// are served by priority, and in order among equals. On nil the caller owns the sequence: it must Start, Attach, Fail
// or Cancel it. On an error the sequence is gone.
func (q *Sequence) Wait(ctx context.Context) error {
	select {
	case <-q.admitted:
	case <-ctx.Done():
		q.sched.abandon(q)
		return ctx.Err()
	}
	if q.table == nil {
		return q.admitErr
	}
	return nil
}

func (s *Scheduler) check(spec *sequence.Spec) error {
	switch n := spec.Len(); {
	case len(spec.Prompt) == 0:
		return errors.New("prompt is empty, want at least one token")
	case spec.MaxTokens <= len(spec.Generated):
		return fmt.Errorf("max_tokens is %d with %d generated already, want more", spec.MaxTokens, len(spec.Generated))
	case len(spec.Prompt)+spec.MaxTokens > s.card.ContextTokens:
		return fmt.Errorf("max_tokens is %d after a prompt of %d tokens, want at most %d together",
			spec.MaxTokens, len(spec.Prompt), s.card.ContextTokens)
	default:
		for i, t := range slices.Concat(spec.Prompt, spec.Generated)[:n] {
			if int(t) >= s.card.VocabTokens {
				return fmt.Errorf("prompt[%d] is token %d, want less than %d", i, t, s.card.VocabTokens)
			}
		}
	}
	for i, b := range spec.Sampling.Bias {
		if int(b.Token) >= s.card.VocabTokens {
			return fmt.Errorf("logit_bias[%d] is for token %d, want less than %d", i, b.Token, s.card.VocabTokens)
		}
	}
	return sampling.ValidateSpec(spec)
}

// abandon takes q out of the waiting line, or gives back what it was admitted to.
func (s *Scheduler) abandon(q *Sequence) {
	s.mu.Lock()
	i := slices.Index(s.waiting, q)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.admit(time.Now())
	}
	s.mu.Unlock()
	if i < 0 && q.table != nil && s.leave(q) && q.opt.PromptOnly {
		q.Release()
	}
}

// admit lets in all waiting sequences that fit, in the order of the line. One that has waited for
// passAfter stops those behind it, which are younger or matter less; who matters more stands
// before it. s.mu is held.
func (s *Scheduler) admit(now time.Time) {
	var still []*Sequence
	for i, q := range s.waiting {
		if s.admitted >= s.cfg.Running {
			still = append(still, s.waiting[i:]...)
			break
		}
		err := s.tryAdmit(q)
		if err == nil {
			continue
		}
		still = append(still, q)
		if now.Sub(q.since) > passAfter {
			still = append(still, s.waiting[i+1:]...)
			break
		}
	}
	clear(s.waiting)
	s.waiting = append(s.waiting[:0], still...)
}

// tryAdmit answers nil when q left the waiting line, with a table or refused for good.
func (s *Scheduler) tryAdmit(q *Sequence) error {
	rows := len(q.spec.Prompt) + q.spec.MaxTokens - 1 // the last token generated is never written
	if q.opt.PromptOnly {
		rows = q.spec.Len()
	}
	blocks := s.card.Layout.Blocks(rows)
	table, err := s.pool.Admit(block.Prompt{
		Tokens: q.tokens[:q.spec.Len():q.spec.Len()], Namespace: q.opt.Namespace, Root: q.opt.Root,
	}, blocks)
	switch {
	case errors.Is(err, block.ErrNoRoom):
		return err
	case errors.Is(err, block.ErrTooLarge):
		q.admitErr = fmt.Errorf("max_tokens is %d after a prompt of %d tokens: %d blocks are needed, the pool has %d: %w",
			q.spec.MaxTokens, len(q.spec.Prompt), blocks, s.pool.Counts().Capacity, err)
	case err != nil:
		q.admitErr = fmt.Errorf("admit %s: %w", q.spec.RequestID, err)
	default:
		q.table, q.state = table, admitted
		q.missing = q.spec.Len() - table.CachedTokens()
		s.admitted++
		q.counted = len(q.tokens)
		s.active += q.counted
		s.missing += q.missing
	}
	close(q.admitted)
	return nil
}
