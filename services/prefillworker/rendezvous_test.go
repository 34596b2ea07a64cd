package prefillworker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

func newMeeting(t *testing.T, change func(*Config)) *reader {
	t.Helper()
	return newReader(t, func(c *Config) {
		c.Engine.Style = worker.Rendezvous
		if change != nil {
			change(c)
		}
	})
}

// meeting asks with a ticket of the decode worker.
func (r *reader) meeting(attempt string) *prefillworkerv1.PrefillRequest {
	r.t.Helper()
	r.decode.mu.Lock()
	defer r.decode.mu.Unlock()
	r.decode.n++
	q := request(attempt)
	q.Ticket = r.decode.ticket(0).GetTicket()
	if err := r.decode.allow(nixl.PeerID{Name: "prefill", Incarnation: "1"}, q.GetTicket()); err != nil {
		r.t.Fatal(err)
	}
	return q
}

func TestATicketThatComesWithTheCallIsUsed(t *testing.T) {
	r := newMeeting(t, func(c *Config) { c.Calls = 1 })
	r.start()
	for _, attempt := range []string{"a", "b"} {
		q := r.meeting(attempt)
		got := r.ask(within(t), q)
		n := r.decode.answerNote(committed)
		if n.GetAttemptId() != attempt || n.GetTicket() != q.GetTicket().GetNumber() {
			t.Errorf("note %v, want of attempt %s", n, attempt)
		}
		r.checkWritten(prompt, n.GetFirstTokens()[0].GetToken())
		if a := take(t, "an answer", got); a.err != nil || a.GetCredits() != 1 {
			t.Errorf("answered %v, want a credit", a)
		}
	}
	if n := len(r.decode.claims) + len(r.decode.abandoned); n != 0 {
		t.Errorf("%d claims or words", n)
	}
	r.refused(request("c"), codes.FailedPrecondition) // without a ticket
	r.refused(r.meeting("a"), codes.Aborted)          // it has ended
	r.report("two commits", func(r *prefillworkerv1.JobReport) bool {
		return r.GetCommitted() == 2 && r.GetCalls() == 2 && r.GetHolds() == 0 && r.GetDeliveries() == 0
	})
	r.checkIdle()
}

// The ticket of such a call has ended at the decode worker, whatever it says.
func TestACallThatItsAbortOvertookWritesNothing(t *testing.T) {
	r := newMeeting(t, nil)
	r.decode.renew = func() error { return errEnded }
	r.start()
	q := r.meeting("a")
	if err := take(t, "the word", r.abort("a", "t")); err != nil {
		t.Fatal(err)
	}
	r.refused(q, codes.Aborted)
	if n := r.agent.Stats().BytesWritten; n != 0 {
		t.Errorf("%d bytes were written", n)
	}
	if n := len(r.decode.notes); n != 0 {
		t.Errorf("%d notes", n)
	}
	r.checkIdle()
}

func TestAMeetingThatEndsEarlyIsGivenUpWithAWord(t *testing.T) {
	for name, end := range map[string]func(r *reader, leave func()){
		"nobody waits": func(_ *reader, leave func()) { leave() },
		"Cancel":       func(r *reader, _ func()) { r.cancel("a") },
		"Abort": func(r *reader, _ func()) {
			if err := take(r.t, "the word", r.abort("a", "t")); err != nil {
				r.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMeeting(t, func(c *Config) { c.Calls = 1 })
			g := newGate()
			r.step = g.wait
			r.start()
			ctx, leave := context.WithCancel(within(t))
			defer leave()
			got := r.ask(ctx, r.meeting("a"))
			take(t, "a step", g.reached)
			end(r, leave)
			if name == "nobody waits" {
				r.eventually("the call was dropped", func() bool {
					r.p.calls.mu.Lock()
					defer r.p.calls.mu.Unlock()
					return r.p.calls.known[attemptKey{"t", "a"}].dropped
				}, func() any { return nil })
			}
			close(g.open)
			if a := take(t, "an answer", got); a.err == nil || rpc.Code(a.err) == codes.ResourceExhausted {
				t.Errorf("answered %v", a)
			}
			if w := take(t, "the word", r.decode.abandoned); w.GetAttemptId() != "a" {
				t.Errorf("attempt %s was abandoned", w.GetAttemptId())
			}
			if n := r.agent.Stats().BytesWritten; n != 0 {
				t.Errorf("%d bytes were written", n)
			}
			r.checkIdle()
			again := r.ask(within(t), r.meeting("b")) // the slot is free again
			r.decode.answerNote(committed)
			if a := take(t, "an answer", again); a.err != nil {
				t.Error(a.err)
			}
		})
	}
}

func TestAMeetingIsRefusedWithoutASlot(t *testing.T) {
	r := newMeeting(t, func(c *Config) { c.Calls = 1 })
	g := newGate()
	r.step = g.wait
	r.start()
	got := r.ask(within(t), r.meeting("a"))
	take(t, "a step", g.reached)
	r.refused(r.meeting("b"), codes.ResourceExhausted)
	close(g.open)
	if n := r.decode.answerNote(transferv1.NoteOutcome_NOTE_OUTCOME_STALE); n.GetAttemptId() != "a" {
		t.Errorf("note %v", n)
	}
	if a := take(t, "an answer", got); rpc.Code(a.err) != codes.Aborted { // there is no queue to take the job back to
		t.Errorf("answered %v", a)
	}
	r.checkIdle()
}

// The members may lag behind a decode worker's call.
func TestACallerThatIsNotListedYetIsWaitedFor(t *testing.T) {
	r := newMeeting(t, nil)
	instance := r.members.Swap(nil)
	r.start()
	got := r.ask(within(t), r.meeting("a"))
	r.report("a call", func(r *prefillworkerv1.JobReport) bool { return r.GetCalls() == 1 })
	r.members.Store(instance)
	r.decode.answerNote(committed)
	if a := take(t, "an answer", got); a.err != nil {
		t.Error(a.err)
	}
	again := proto.CloneOf(instance)
	again.Incarnation = "2"
	r.members.Store(again)
	r.refused(r.meeting("b"), codes.Aborted) // it lives again: nobody waits
	r.checkIdle()
}

// The answer is the word: one that came before it would hide the reason.
func TestADecodeWorkerThatCannotBeMetIsToldSo(t *testing.T) {
	r := newMeeting(t, func(c *Config) { c.Calls = 1 })
	r.agent.addPeer = func() error { return fmt.Errorf("no transport leads there: %w", nixl.ErrUnreachable) }
	r.start()
	a := take(t, "an answer", r.ask(within(t), r.meeting("a")))
	if rpc.Code(a.err) != codes.FailedPrecondition || rpc.Reason(a.err) != worker.ReasonUnreachable || !strings.Contains(a.err.Error(), "no transport leads") {
		t.Errorf("answered %v, want that it is unreachable and why", a.err)
	}
	if n := len(r.decode.abandoned); n != 0 {
		t.Errorf("%d words were given", n)
	}
	r.checkIdle()
}
