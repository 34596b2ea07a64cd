package handoff

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// deliver does what the ticket of a call is for.
func (h *holder) deliver(q *prefillworkerv1.PrefillRequest) transferv1.NoteOutcome {
	if err := h.write(q.GetTicket()); err != nil {
		h.r.t.Error(err)
	}
	return h.note(&transferv1.RemotePrefillRequest{TransferId: q.GetTransferId()}, q.GetTicket())
}

// delivers lets it do so whenever it is called, and hands out how its notes were answered: after
// their commits, so a test that ends at the commit must wait for the answer, too.
func (h *holder) delivers() <-chan transferv1.NoteOutcome {
	outcomes := make(chan transferv1.NoteOutcome, 1)
	h.prefill = func(_ context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
		outcomes <- h.deliver(q)
		return &prefillworkerv1.PrefillResponse{Credits: h.credits.Load()}, nil
	}
	return outcomes
}

// committed waits for the answer to a note.
func committed(t *testing.T, outcomes <-chan transferv1.NoteOutcome) {
	t.Helper()
	if o := <-outcomes; o != transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED {
		t.Errorf("the note was answered %v", o)
	}
}

func TestATicketGoesWithTheCall(t *testing.T) {
	r := newAskingRig(t, worker.Rendezvous, nil)
	h := r.holder("prefill")
	outcomes := h.delivers()
	if o := r.with(t.Context())(); o.err != nil || o.first.PrefillWorker != "prefill" {
		t.Errorf("Prefill = %+v", o)
	}
	q := <-h.asked
	committed(t, outcomes)
	if q.GetTicket().GetFirstPosition() != 0 || q.GetTicket().GetEndPosition() != uint32(len(prompt)) || q.GetSequence() == nil {
		t.Errorf("request %v", q)
	}
	if c := r.counters(); c.GetClaimsGranted() != 1 || c.GetNotesCommitted() != 1 || c.GetPrefillCalls()["done"] != 1 {
		t.Errorf("counters %v", c)
	}
	if len(r.queue.arrived)+len(h.released)+len(h.cancels)+len(r.aborts) != 0 {
		t.Error("there was a job, a release, a cancel or an abort")
	}
	r.eventually("the call is answered after its note", func() bool { return r.InFlight() == 0 })
	if got := r.standings[h.agent.ID()].credits; got != 2 {
		t.Errorf("%d credits are known, want 2", got)
	}
}

// A refusal is the word that nothing was written: the same blocks serve the next.
func TestARefusedTicketComesBackAtOnce(t *testing.T) {
	r := newAskingRig(t, worker.Rendezvous, nil)
	full, free := r.holder("full"), r.holder("free")
	full.prefill = refuse
	outcomes := free.delivers()
	r.with(t.Context(), "full")()
	committed(t, outcomes)
	r.calls(map[string]uint64{"no_credit": 1, "done": 1})
	a, b := <-full.asked, <-free.asked
	if a.GetTicket().GetNumber() == b.GetTicket().GetNumber() || a.GetAttemptId() == b.GetAttemptId() {
		t.Errorf("one ticket for two: %v, %v", a.GetTicket(), b.GetTicket())
	}
	if len(r.aborts) != 0 {
		t.Error("it was asked for its word")
	}
	r.eventually("its word is counted", func() bool { return r.counters().GetQuarantineSettledByWord() == 1 })
}

// Whatever ends a call otherwise leaves its writer in doubt: the next gets other blocks.
func TestATicketInDoubtIsNotGivenToAnother(t *testing.T) {
	for _, name := range []string{"an error", "its word and an error", "its death", "its lease", "an answer without a note"} {
		t.Run(name, func(t *testing.T) {
			r := newAskingRig(t, worker.Rendezvous, func(c *Config) { c.Lease = 300 * time.Millisecond })
			word := make(chan struct{})
			r.Coordinator.deps.Abort = func(_ context.Context, _ string, a *prefillworkerv1.AbortRequest) error {
				r.aborts <- a
				<-word
				return errors.New("no answer")
			}
			first, second := r.holder("first"), r.holder("second")
			first.prefill = func(ctx context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
				switch name {
				case "its word and an error":
					_, err := r.Abandon(ctx, &decodeworkerv1.AbandonClaimRequest{TransferId: q.GetTransferId(), AttemptId: q.GetAttemptId()})
					if err != nil {
						t.Error(err)
					}
				case "its death":
					first.close()
					return hang(ctx, q)
				case "its lease":
					return hang(ctx, q)
				case "an answer without a note":
					return &prefillworkerv1.PrefillResponse{}, nil
				}
				return nil, status.Error(codes.Aborted, "no more")
			}
			outcomes := make(chan transferv1.NoteOutcome, 1)
			second.prefill = func(_ context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
				outcomes <- second.deliver(q)
				return &prefillworkerv1.PrefillResponse{}, nil
			}
			q, s := r.admit()
			got := r.prefillBy(t.Context(), q, "first")
			a, b := <-first.asked, <-second.asked
			if name != "its word and an error" {
				if w := <-r.aborts; w.GetAttemptId() != a.GetAttemptId() || w.GetPrefillIncarnation() != "1" {
					t.Errorf("the word was asked of %v, want %v", w, a)
				}
				for _, n := range b.GetTicket().GetBlocks().GetBlocks() {
					if slices.Contains(a.GetTicket().GetBlocks().GetBlocks(), n) {
						t.Errorf("block %d is in both tickets", n)
					}
				}
			}
			committed(t, outcomes)
			o := <-got
			if o.err != nil || o.first.PrefillWorker != "second" {
				t.Errorf("Prefill = %+v", o)
			}
			if name == "its lease" { // the frozen one wakes up
				if o := first.note(&transferv1.RemotePrefillRequest{TransferId: a.GetTransferId()}, a.GetTicket()); o == transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED {
					t.Errorf("the late note was answered %v", o)
				}
			}
			close(word)
			r.finish(q, s, o)
			r.calls(map[string]uint64{"prefill": 1, "done": 1})
			if len(r.queue.arrived) != 0 {
				t.Error("a job was queued")
			}
		})
	}
}

func TestACancelEndsAMeeting(t *testing.T) {
	r := newAskingRig(t, worker.Rendezvous, nil)
	h := r.holder("prefill")
	ended := make(chan error, 1)
	h.prefill = func(ctx context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
		a, err := hang(ctx, q)
		ended <- err
		return a, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	wait := r.with(ctx)
	q := <-h.asked
	cancel()
	r.fell(wait(), CauseCancel)
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("the call ended by %v", err)
	}
	if a := <-r.aborts; a.GetAttemptId() != q.GetAttemptId() {
		t.Errorf("abort %v", a)
	}
	if o := h.note(&transferv1.RemotePrefillRequest{TransferId: q.GetTransferId()}, q.GetTicket()); o != transferv1.NoteOutcome_NOTE_OUTCOME_GONE {
		t.Errorf("a note after the cancel was answered %v", o)
	}
}

// An answer that comes late, after the commit, ends the call all the same, and so does the
// coordinator's end.
func TestACallOutlivesItsCommitButNotItsCoordinator(t *testing.T) {
	ended, delivered := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { // after Run has returned
		select {
		case <-ended:
		default:
			t.Error("the call outlives its coordinator")
		}
	})
	r := newAskingRig(t, worker.Rendezvous, nil)
	h := r.holder("prefill")
	h.prefill = func(ctx context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
		defer close(ended)
		h.deliver(q)
		close(delivered)
		return hang(ctx, q)
	}
	if o := r.with(t.Context())(); o.err != nil {
		t.Fatal(o.err)
	}
	<-delivered // the answer to the note comes after the commit
	select {
	case <-ended:
		t.Error("the commit ended the call")
	default:
	}
	if n := r.InFlight(); n != 1 {
		t.Errorf("%d calls are under way, want 1", n)
	}
}
