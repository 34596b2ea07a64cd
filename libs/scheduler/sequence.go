package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sampling"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Sink receives what a sequence produces. The step loop calls it, so it must return at
// once; tokens come in order and End comes exactly once, after them.
type Sink interface {
	// Token delivers the next generated token, and how likely it was if the sequence asks
	// for that; else p is nil. The sink may keep p.
	Token(t sequence.Token, p *sequence.LogProbs)
	// End delivers the terminal status. err is set with sequence.FinishError only.
	End(reason sequence.Finish, err error)
}

// ErrState means that a call does not fit the sequence's state: it was ended or started already.
var ErrState = errors.New("scheduler: sequence was started or ended before")

// state is how far a sequence has come. It is guarded by Scheduler.mu.
type state uint8

const (
	waiting  state = iota // for blocks
	admitted              // holds a table; its owner decides where the prompt is computed
	started               // belongs to the step loop
	ended
)

// Sequence is one generation on this worker. The caller of Submit owns it, once Wait returned, until Start or
// Attach, which hand it to the step loop; Cancel may come from anywhere at any time.
type Sequence struct {
	sched *Scheduler
	spec  sequence.Spec
	sink  Sink
	opt   Options
	since time.Time // when it began to wait

	admitted chan struct{} // closed when the sequence left the waiting line
	admitErr error         // why it was refused; set before admitted is closed

	// Guarded by Scheduler.mu.
	state     state
	cancelled bool
	missing   int // prompt rows that are not in place yet
	counted   int // its tokens within Scheduler.active

	// Owned by the caller of Submit until it is started, then by the step loop.
	table  *block.Table
	tokens []sequence.Token // prompt and generated
	begun  bool             // a step has computed some of it
	// history is made when the sequence is launched; nil where nothing looks at it.
	history *sampling.History
}

// Options say what is wanted beside the tokens.
type Options struct {
	// Namespace and Root separate prefix caches; see block.Prompt.
	Namespace string
	Root      block.Hash
	// PromptOnly ends the sequence after its first token, with sequence.Unfinished if more
	// would follow. It books no blocks for output and keeps the table at the end: the owner
	// calls Release once nobody reads the blocks any more.
	PromptOnly bool
	// Alone keeps the sequence out of the other sequences' steps until it has generated so many
	// tokens here: it gets every second step for itself, so that what it does to the engine
	// is its own doing.
	Alone int
	// Placed, unless nil, is engine.Segment's, for every segment of the sequence.
	Placed func(layer, from, to int)
}

// Spec is what the sequence was asked to be.
func (q *Sequence) Spec() *sequence.Spec { return &q.spec }

// alone says whether a step that computes the sequence computes nothing else. The step loop calls it.
func (q *Sequence) alone() bool { return len(q.tokens)-q.spec.Len() < q.opt.Alone }

// Table is the sequence's blocks. Its owner may use it until Start or Attach, and after
// the end when PromptOnly.
func (q *Sequence) Table() *block.Table { return q.table }

// Attach hands over a sequence whose prompt was computed elsewhere and is in the table
// now. first is the token after the prompt, and p how likely it was, without which a sequence
// that asks for it is not taken; ended is why it was the last, if it was.
func (q *Sequence) Attach(first sequence.Token, p *sequence.LogProbs, ended sequence.Finish) error {
	s := q.sched
	switch {
	case !q.spec.LogProbs:
		p = nil
	case p == nil:
		return fmt.Errorf("attach %s: the first token comes without its log-probability", q.spec.RequestID)
	}
	if q.table.Len() != q.spec.Len() {
		return fmt.Errorf("attach %s: %d rows are in place, want %d", q.spec.RequestID, q.table.Len(), q.spec.Len())
	}
	if err := q.take(); err != nil {
		return err
	}
	s.attached(q)
	q.tokens = append(q.tokens, first)
	if ended == sequence.Unfinished {
		ended = q.finished(first, s.card.ContextTokens)
	}
	q.sink.Token(first, p)
	if ended != sequence.Unfinished {
		q.finish(ended)
		return nil
	}
	return s.launch(q)
}

// Start hands the sequence to the step loop, which computes what the table lacks.
func (q *Sequence) Start() error {
	if err := q.take(); err != nil {
		return err
	}
	return q.sched.launch(q)
}

// take ends the owner's part: from here on a Cancel only leaves a mark, so that nothing
// reaches the sink after the end.
func (q *Sequence) take() error {
	q.sched.mu.Lock()
	defer q.sched.mu.Unlock()
	if q.state != admitted {
		return ErrState
	}
	q.state = started
	return nil
}

// launch gives a taken sequence to the step loop.
func (s *Scheduler) launch(q *Sequence) error {
	n := len(q.spec.Prompt)
	q.history = sampling.NewHistory(&q.spec.Sampling, q.tokens[:n], q.tokens[n:])
	s.mu.Lock()
	closed := s.closed
	if closed == nil {
		s.joining = append(s.joining, q)
	}
	s.mu.Unlock()
	if closed != nil {
		s.end(q, closed)
		return closed
	}
	s.signal()
	return nil
}

// finish ends a sequence that the step loop does not hold.
func (q *Sequence) finish(reason sequence.Finish) {
	if q.sched.leave(q) {
		q.sink.End(reason, nil)
	}
}

// Fail ends a sequence that was not started yet with an error.
func (q *Sequence) Fail(err error) { q.sched.end(q, err) }

// Cancel ends the sequence as soon as the current step is done. A sequence that its
// owner still holds ends at once; the owner's next call answers ErrState.
func (q *Sequence) Cancel() {
	s := q.sched
	s.mu.Lock()
	q.cancelled = true
	held := q.state == admitted
	s.mu.Unlock()
	if held {
		q.finish(sequence.FinishCancelled)
		return
	}
	s.signal()
}

// Release gives back the blocks of a PromptOnly sequence that has ended.
func (q *Sequence) Release() {
	q.table.Release()
	q.sched.mu.Lock()
	q.sched.admitted--
	q.sched.mu.Unlock()
	q.sched.Kick()
}

// finished says whether token t, the last of q.tokens, ends the sequence.
func (q *Sequence) finished(t sequence.Token, contextTokens int) sequence.Finish {
	for _, stop := range q.spec.StopTokens {
		if t == stop {
			return sequence.FinishStop
		}
	}
	if len(q.tokens)-len(q.spec.Prompt) >= q.spec.MaxTokens || len(q.tokens) >= contextTokens {
		return sequence.FinishLength
	}
	return sequence.Unfinished
}
