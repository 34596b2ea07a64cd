package prefillworker

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// gate holds the first step until it is open, and says that it was reached.
type gate struct{ reached, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}, 64), make(chan struct{})} }

func (g gate) wait(ctx context.Context) error {
	g.reached <- struct{}{}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// held is a transfer that has not landed until its gate opens.
type held struct {
	nixl.Transfer
	gate gate
}

func (h held) Wait(ctx context.Context) error {
	h.gate.reached <- struct{}{}
	<-h.gate.open
	return h.Transfer.Wait(ctx)
}

func (h *harness) abort(attempt, transfer string) <-chan error {
	h.t.Helper()
	answered, client, ctx := make(chan error, 1), h.client(), within(h.t)
	go func() {
		_, err := client.Abort(ctx, &prefillworkerv1.AbortRequest{TransferId: transfer, AttemptId: attempt, PrefillIncarnation: "1"})
		answered <- err
	}()
	return answered
}

func TestAnAbortBeforeTheFirstByteIsAnsweredAtOnce(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	h.publish(nil)
	claim := take(t, "a claim", h.decode.claims)
	take(t, "a step", g.reached)
	if err := take(t, "the word", h.abort(claim.GetAttemptId(), claim.GetTransferId())); err != nil {
		t.Fatal(err)
	}
	if n := h.agent.Stats().BytesWritten; n != 0 {
		t.Errorf("%d bytes were written", n)
	}
	close(g.open)
	h.decode.answerNote(committed) // of another attempt: the transfer may still be wanted
	if again := take(t, "a claim", h.decode.claims); again.GetAttemptId() == claim.GetAttemptId() {
		t.Error("an aborted attempt claimed again")
	}
	h.acknowledged()
	h.report("one abort", func(r *prefillworkerv1.JobReport) bool { return r.GetAborted() == 1 && r.GetCommitted() == 1 })
	h.checkIdle()
}

func TestAnAbortWaitsForTheLastByte(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.agent.posted = func(op nixl.Op, transfer nixl.Transfer) nixl.Transfer {
		if op == nixl.Write {
			transfer = held{transfer, g}
		}
		return transfer
	}
	h.start()
	h.publish(nil)
	claim := take(t, "a claim", h.decode.claims)
	take(t, "a write", g.reached)
	word := h.abort(claim.GetAttemptId(), claim.GetTransferId())
	h.eventually("the abort has arrived", func() bool {
		h.p.mu.Lock()
		a := h.p.attempts[attemptKey{claim.GetTransferId(), claim.GetAttemptId()}]
		h.p.mu.Unlock()
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.over
	}, func() any { return nil })
	select {
	case err := <-word:
		t.Errorf("the abort was answered (%v) while bytes were on their way", err)
	default:
	}
	close(g.open)
	if err := take(t, "the word", word); err != nil {
		t.Error(err)
	}
	// The aborted attempt tells nothing; the note is that of the next.
	if n := h.decode.answerNote(committed); n.GetAttemptId() == claim.GetAttemptId() {
		t.Error("an aborted attempt sent a note")
	}
	h.acknowledged()
	h.checkIdle()
}

func TestAnAbortOfAnAttemptThatHasEndedIsAnswered(t *testing.T) {
	h := newHarness(t, nil).start()
	h.publish(nil)
	claim := take(t, "a claim", h.decode.claims)
	h.decode.answerNote(committed)
	h.acknowledged()
	if err := take(t, "the word", h.abort(claim.GetAttemptId(), claim.GetTransferId())); err != nil {
		t.Error(err)
	}
	_, err := h.client().Abort(within(t), &prefillworkerv1.AbortRequest{TransferId: "t", AttemptId: "a", PrefillIncarnation: "0"})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an abort for another life: %v, want a failed precondition", err)
	}
}

// cancelled waits until an attempt is to end; a step that is being made is finished first.
func (h *harness) cancelled(claim *decodeworkerv1.ClaimPrefillRequest) {
	h.t.Helper()
	h.eventually("the attempt is to end", func() bool {
		h.p.mu.Lock()
		a := h.p.attempts[attemptKey{claim.GetTransferId(), claim.GetAttemptId()}]
		h.p.mu.Unlock()
		return a == nil || a.ctx.Err() != nil
	}, func() any { return nil })
}

// A claim that has ended ends the computation: nobody wants its bytes.
func TestALostClaimEndsTheAttempt(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step, h.decode.lease = g.wait, 30*time.Millisecond
	h.decode.renew = func() error { return errEnded }
	h.decode.claim = func(n int, _ *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error) {
		if n > 1 { // the job comes again, and nobody would answer its note
			return answerGone, nil
		}
		return h.decode.ticket(0), nil
	}
	h.start()
	h.publish(nil)
	claim := take(t, "a claim", h.decode.claims)
	take(t, "a step", g.reached)
	take(t, "a renewal", h.decode.renewed)
	h.cancelled(claim)
	if n := h.agent.Stats().BytesWritten; n != 0 {
		t.Errorf("%d bytes were written", n)
	}
	close(g.open)
	if r := take(t, "the word", h.decode.abandoned); r.GetAttemptId() != claim.GetAttemptId() {
		t.Errorf("attempt %s was abandoned, want %s", r.GetAttemptId(), claim.GetAttemptId())
	}
}

// A commit ends the claim, too: a renewal that meets it must not take the answer's place.
func TestARenewalThatMeetsTheCommitChangesNothing(t *testing.T) {
	h := newHarness(t, nil)
	var told atomic.Bool
	h.decode.lease = 30 * time.Millisecond
	h.decode.renew = func() error {
		if told.Load() {
			return errEnded
		}
		return nil
	}
	h.start()
	h.publish(nil)
	n := take(t, "a note", h.decode.notes)
	take(t, "a renewal", h.decode.renewed)
	told.Store(true)
	take(t, "a renewal", h.decode.renewed) // may have begun before
	select {
	case <-h.decode.renewed: // was answered that the claim has ended
	case again := <-h.decode.notes: // renewals have ended by the one before
		n = again
	}
	h.decode.notes <- n
	h.decode.answerNote(committed)
	h.acknowledged()
	h.report("one commit by one claim", func(r *prefillworkerv1.JobReport) bool {
		return r.GetCommitted() == 1 && r.GetClaimsGranted() == 1 && r.GetDeliveries() == 1
	})
}

func TestTheEndOfTheDecodeWorkerEndsTheAttempt(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	h.publish(nil)
	claim := take(t, "a claim", h.decode.claims)
	take(t, "a step", g.reached)
	if err := h.decode.agent.Close(); err != nil {
		t.Fatal(err)
	}
	h.cancelled(claim)
	close(g.open)
	take(t, "the word", h.decode.abandoned)
}

func TestADrainFinishesTheJobsInWork(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	h.publish(nil)
	take(t, "a step", g.reached)
	h.terminate()
	close(g.open)
	h.decode.answerNote(committed)
	h.acknowledged()
	h.stopped()
}

func TestTheDrainTimeGivesJobsBack(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Drain = 10 * time.Millisecond })
	g := newGate()
	h.step = g.wait
	h.start()
	h.publish(nil)
	claim := take(t, "a claim", h.decode.claims)
	take(t, "a step", g.reached)
	h.terminate()
	h.cancelled(claim)
	close(g.open)
	take(t, "the word", h.decode.abandoned)
	h.stopped()
	d, err := h.queue.Depth(within(t))
	if err != nil || d.Waiting+d.Working != 1 {
		t.Errorf("the queue has %+v (%v), want the job", d, err)
	}
}

func TestAJobWhoseDeadlinePassesIsDropped(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	h.publish(func(r *transferv1.RemotePrefillRequest) { r.Deadline = timestamppb.New(time.Now().Add(time.Second)) })
	claim := take(t, "a claim", h.decode.claims)
	h.cancelled(claim)
	close(g.open)
	take(t, "the word", h.decode.abandoned)
	h.acknowledged()
	h.report("one that expired", func(r *prefillworkerv1.JobReport) bool { return r.GetExpired() == 1 && r.GetFailed() == 0 })
}
