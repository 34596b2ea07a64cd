package scheduler

import (
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine"
)

// Report is the load now, and the work since start.
type Report struct {
	Running       int // sequences that hold blocks
	Waiting       int // sequences that wait for blocks
	WaitingTokens int // prompt rows not in place yet, of the running and the waiting
	ActiveTokens  int // prompt and output tokens of the running

	PromptTokens    uint64        // prompt rows computed
	GeneratedTokens uint64        // tokens drawn here or attached
	ContextTokens   uint64        // rows that decoding sequences attended to, added up over steps
	Steps           uint64        // steps made
	PrefillBusy     time.Duration // spent in steps that held prompt rows
	DecodeBusy      time.Duration // spent in steps that held none
}

// Report reads the counters.
func (s *Scheduler) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.Running, r.Waiting = s.admitted, len(s.waiting)
	r.ActiveTokens, r.WaitingTokens = s.active, s.missing
	for _, q := range s.waiting {
		r.WaitingTokens += q.spec.Len()
	}
	return r
}

// account adds one finished step to the counters.
func (s *Scheduler) account(members []*Sequence, batch *engine.Batch, busy time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prompt := 0
	for i, q := range members {
		segment := &batch.Segments[i]
		n := max(0, min(q.spec.Len(), segment.Start+len(segment.Tokens))-segment.Start)
		prompt += n
		q.missing -= n
		if n == 0 {
			s.report.ContextTokens += uint64(segment.Start + len(segment.Tokens))
		}
		if segment.Logits != nil {
			s.report.GeneratedTokens++
			q.counted++
			s.active++
		}
	}
	s.missing -= prompt
	s.report.Steps++
	s.report.PromptTokens += uint64(prompt)
	if prompt > 0 {
		s.report.PrefillBusy += busy
	} else {
		s.report.DecodeBusy += busy
	}
}

// attached counts a prompt and a token that were computed elsewhere.
func (s *Scheduler) attached(q *Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing -= q.missing
	q.missing = 0
	q.counted++
	s.active++
	s.report.GeneratedTokens++
}

// Imported tells that the owner of a sequence put prompt rows into its table itself.
func (q *Sequence) Imported(rows int) {
	q.sched.mu.Lock()
	defer q.sched.mu.Unlock()
	q.missing -= rows
	q.sched.missing -= rows
}
