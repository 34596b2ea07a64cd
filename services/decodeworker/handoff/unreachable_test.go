package handoff

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// expire ends the time for which a prefill worker is not asked, and tells how long it was.
func (r *askingRig) expire(peer nixl.PeerID) time.Duration {
	r.Coordinator.mu.Lock()
	defer r.Coordinator.mu.Unlock()
	s := r.standing(peer)
	s.barred = time.Now()
	return s.bar
}

// One that says that it has no way here is not asked for every prompt.
func TestAPrefillWorkerThatCannotWriteHereIsNotAskedForAWhile(t *testing.T) {
	r := newAskingRig(t, worker.Rendezvous, nil)
	h := r.holder("prefill")
	h.prefill = func(context.Context, *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
		return nil, rpc.FailedPrecondition(worker.ReasonUnreachable, "no transport leads there")
	}
	o := r.with(t.Context())()
	r.fell(o, CauseUnreachable)
	if !strings.Contains(o.err.Error(), "no transport leads there") {
		t.Errorf("%q does not say why", o.err)
	}
	r.eventually("it is its word", func() bool { return r.counters().GetQuarantineSettledByWord() == 1 })
	if len(r.aborts) != 0 {
		t.Error("it was asked for another word")
	}
	r.fell(r.with(t.Context())(), CauseNoWorker)
	if n := len(h.asked); n != 1 {
		t.Errorf("it was asked %d times, want once", n)
	}
	if bar := r.expire(h.agent.ID()); bar != barAtLeast {
		t.Errorf("it is not asked for %v, want %v", bar, barAtLeast)
	}
	r.fell(r.with(t.Context())(), CauseUnreachable)
	if bar := r.expire(h.agent.ID()); bar != 2*barAtLeast {
		t.Errorf("then not for %v, want %v", bar, 2*barAtLeast)
	}
	outcomes := h.delivers()
	if o := r.with(t.Context())(); o.err != nil {
		t.Error(o.err)
	}
	committed(t, outcomes)
	if bar := r.expire(h.agent.ID()); bar != 0 {
		t.Errorf("after a success a bar of %v is remembered", bar)
	}
	r.calls(map[string]uint64{"unreachable": 2, "done": 1})
}

func TestAPrefillWorkerWhoseMemoryIsNotMetIsNotAskedForAWhile(t *testing.T) {
	r := newAskingRig(t, worker.Pull, nil)
	h, other := r.holder("prefill"), r.holder("other")
	r.live[0].Transfer = nil
	for range 2 {
		if o := r.with(t.Context(), "prefill")(); o.err != nil || o.first.PrefillWorker != "other" {
			t.Errorf("Prefill = %+v", o)
		}
	}
	r.calls(map[string]uint64{"unreachable": 1, "done": 2})
	if n := len(h.asked) + len(h.cancels) + len(other.asked); n != 2 {
		t.Errorf("%d calls, want 2 of the other one", n)
	}
	again := &instancev1.Instance{Id: "prefill", Incarnation: "2"}
	if r.Usable(r.live[0]) || !r.Usable(again) {
		t.Error("its next life is not asked, or this one is")
	}
}

func TestHowLongAPrefillWorkerIsNotAsked(t *testing.T) {
	r := newAskingRig(t, worker.Pull, nil)
	id := nixl.PeerID{Name: "a", Incarnation: "1"}
	left, leave := context.WithCancel(t.Context())
	leave()
	r.judge(left, id, CauseUnreachable) // the client left meanwhile
	r.judge(t.Context(), id, CauseRead)
	if n := len(r.standings); n != 0 {
		t.Errorf("%d standings, want none", n)
	}
	for want := barAtLeast; want < 4*barAtMost; want *= 2 {
		r.judge(t.Context(), id, CauseUnreachable)
		r.judge(t.Context(), id, CauseUnreachable) // of the same time
		if got := r.expire(id); got != min(want, barAtMost) {
			t.Errorf("not asked for %v, want %v", got, min(want, barAtMost))
		}
	}
	remembered := func(age time.Duration) bool {
		r.Coordinator.mu.Lock()
		defer r.Coordinator.mu.Unlock()
		r.standing(id).barred = time.Now().Add(-age)
		r.forgetStandings()
		return r.standings[id] != nil
	}
	if !remembered(barAtMost/2) || remembered(2*barAtMost) {
		t.Error("that it could not be reached is forgotten at once, or never")
	}
}

// The reason that comes with the writer's word is why the call ends.
func TestAWordTellsWhyATicketCameBack(t *testing.T) {
	r := newAskingRig(t, worker.Rendezvous, nil)
	h := r.holder("prefill")
	h.prefill = func(ctx context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
		_, err := r.Abandon(ctx, &decodeworkerv1.AbandonClaimRequest{
			TransferId: q.GetTransferId(), AttemptId: q.GetAttemptId(), Reason: "out of ink",
		})
		if err != nil {
			t.Error(err)
		}
		return hang(ctx, q)
	}
	o := r.with(t.Context())()
	r.fell(o, CausePrefill)
	if !strings.Contains(o.err.Error(), "out of ink") || errors.Is(o.err, errLost) {
		t.Errorf("fell back by %q, want its reason", o.err)
	}
}
