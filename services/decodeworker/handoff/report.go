package handoff

import (
	"cmp"
	"errors"
	"maps"

	"github.com/switchyard-llm/switchyard/libs/block"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// report counts since start.
type report struct {
	granted, repeated, later, gone         uint64 // claims
	committed, stale, noteGone             uint64 // notes
	expired, byWord, byFence               uint64 // tickets
	cancelled, deadlines                   uint64 // transfers
	decodeLonger, prefillLonger, hitsEqual uint64 // commits
	receivedTokens                         uint64
	byWorker                               map[string]uint64
	calls                                  map[string]uint64 // of prefill workers, by outcome
}

func newReport() report {
	return report{byWorker: make(map[string]uint64), calls: make(map[string]uint64)}
}

// Report adds the counters of the hand-offs to r.
func (c *Coordinator) Report(r *decodeworkerv1.HandOffReport) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &c.report
	r.ClaimsGranted, r.ClaimsRepeated, r.ClaimsLater, r.ClaimsGone = n.granted, n.repeated, n.later, n.gone
	r.NotesCommitted, r.NotesStale, r.NotesGone = n.committed, n.stale, n.noteGone
	r.TicketsExpired, r.QuarantineSettledByWord, r.QuarantineSettledByFence = n.expired, n.byWord, n.byFence
	r.Cancelled, r.DeadlinePassed = n.cancelled, n.deadlines
	r.DecodeHitLonger, r.PrefillHitLonger, r.HitsEqual = n.decodeLonger, n.prefillLonger, n.hitsEqual
	r.ReceivedTokens = n.receivedTokens
	r.RemoteByPrefillWorker = maps.Clone(n.byWorker)
	r.PrefillCalls = maps.Clone(n.calls)
}

// countTry counts a call of a prefill worker; no cause means that it did the work.
func (c *Coordinator) countTry(why Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.calls[string(cmp.Or(why, "done"))]++
}

func (c *Coordinator) countClaim(err error, repeated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && repeated:
		c.report.repeated++
	case err == nil:
		c.report.granted++
	case errors.Is(err, block.ErrGone):
		c.report.gone++
	default:
		c.report.later++
	}
}

func (c *Coordinator) countNote(outcome transferv1.NoteOutcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch outcome {
	case transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED:
		c.report.committed++
	case transferv1.NoteOutcome_NOTE_OUTCOME_GONE:
		c.report.noteGone++
	default:
		c.report.stale++
	}
}

// countCommit compares the two workers' prefix hits and adds up what came over.
func (c *Coordinator) countCommit(n *transferv1.CompletionNote) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch own, theirs := n.GetFirstPosition(), n.GetOwnHitTokens(); {
	case own > theirs:
		c.report.decodeLonger++
	case own < theirs:
		c.report.prefillLonger++
	case own > 0:
		c.report.hitsEqual++
	}
	c.report.receivedTokens += uint64(n.GetEndPosition() - n.GetFirstPosition())
	c.report.byWorker[n.GetPrefillWorker()]++
}
