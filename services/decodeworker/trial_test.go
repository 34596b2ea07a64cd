package decodeworker

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/engine"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// suspect is a sequence with which a worker died.
func suspect(maxTokens uint32) *generationv1.Sequence {
	q := spec(maxTokens)
	q.Crashes = 1
	return q
}

// none fails when a trial was announced.
func (s *stream) none(why string) {
	s.t.Helper()
	select {
	case id := <-s.tried:
		s.t.Errorf("sequence %d is tried, want none: %s", id, why)
	default:
	}
}

func TestOneSequenceAtATimeIsOnTrialAndItIsAlone(t *testing.T) {
	h := newHarness(t, nil)
	h.policy.Store(&disagg.Policy{Policy: disagg.Always}) // a suspect goes nowhere else all the same
	var batches [][]int                                   // rows of each segment
	h.toy.BeforeStep = func(_ context.Context, b *engine.Batch) error {
		var rows []int
		for _, s := range b.Segments {
			rows = append(rows, len(s.Tokens))
		}
		batches = append(batches, rows)
		return nil
	}
	h.start()
	a, b := h.attach("a", "1"), h.attach("b", "1")
	a.submit(1, 1, suspect(trialTokens+4))
	if id := take(t, "the trial of a's", a.tried); id != 1 {
		t.Fatalf("sequence %d is tried, want 1", id)
	}
	b.submit(7, 1, suspect(3)) // fewer than a trial lasts
	b.booked(1, 1)
	a.mu.Lock()
	if len(a.tokens) > 0 {
		t.Error("the suspect began before its processor knew of it")
	}
	a.mu.Unlock()
	a.proceed(5) // unknown: nothing happens
	b.none("another is on trial")
	a.proceed(1)
	a.proceed(1)
	if id := take(t, "the trial of b's", b.tried); id != 7 {
		t.Fatalf("sequence %d is tried, want 7", id)
	}
	b.proceed(7)
	for s, n := range map[*stream]int{a: trialTokens + 4, b: 3} {
		e := s.end()
		if e.GetReason() != byLength || e.GetPlacement() != placedHere {
			t.Errorf("ended %v, want length, placed here", e)
		}
		s.check(e.GetSequenceId(), n)
	}
	for i, rows := range batches[:trialTokens] {
		if len(rows) != 1 {
			t.Errorf("step %d computed %v rows, want those of one sequence", i, rows)
		}
	}
	h.checkIdle()
	if r, err := h.client.Describe(within(t), &decodeworkerv1.DescribeRequest{}); err != nil || r.GetHandOff().GetReasons()[string(disagg.OnTrial)] != 2 {
		t.Errorf("reasons %v, %v; want on_trial twice", r.GetHandOff().GetReasons(), err)
	}
}

func TestATrialThatIsCancelledMakesRoomForTheNext(t *testing.T) {
	h := newHarness(t, nil).start()
	s := h.attach("a", "1")
	var order []uint32
	for id := range uint32(3) {
		s.submit(id, uint64(id)+1, suspect(2))
		order = append(order, take(t, "a trial", s.tried))
		s.cancel(id) // it never proceeds
		if e := s.end(); e.GetReason() != byCancel {
			t.Errorf("ended %v, want cancelled", e)
		}
	}
	if !slices.Equal(order, []uint32{0, 1, 2}) {
		t.Errorf("tried %v", order)
	}
	// Those that wait behind one that goes with its stream.
	s.submit(8, 4, suspect(2))
	take(t, "the trial", s.tried)
	other := h.attach("b", "1")
	other.submit(9, 1, suspect(2))
	other.booked(4, 1)
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	other.proceed(take(t, "the trial of the other stream's", other.tried))
	if e := other.end(); e.GetReason() != byLength {
		t.Errorf("ended %v", e)
	}
	h.checkIdle()
}

func TestAPlainCallersSuspectNeedsNobodysLeave(t *testing.T) {
	h := newHarness(t, nil).start()
	stream, err := h.client.Generate(within(t), &decodeworkerv1.GenerateRequest{Sequence: suspect(3)})
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if e := m.GetEnded(); e != nil {
			if e.GetReason() != byLength {
				t.Errorf("ended %v", e)
			}
			return
		}
	}
}

func TestTheDeathOfThePrefillWorkerIsTold(t *testing.T) {
	h := newHarness(t, nil)
	h.died.Store(true)
	h.policy.Store(&disagg.Policy{Policy: disagg.Always})
	h.start()
	s := h.attach("a", "1")
	s.submit(1, 1, spec(3))
	p := h.prefiller()
	if p.claim(take(t, "the job", h.queue.arrived), "1").GetTicket() == nil {
		t.Fatal("no ticket")
	}
	if err := p.agent.Close(); err != nil {
		t.Fatal(err)
	}
	e := s.end()
	if e.GetReason() != byError || codes.Code(e.GetCode()) != codes.Aborted || e.GetCrashedWorker() != "prefill" || e.GetCrashedIncarnation() != "1" {
		t.Errorf("ended %v, want ABORTED with the prefill worker that died", e)
	}
	h.checkIdle()
	r, err := h.client.Describe(within(t), &decodeworkerv1.DescribeRequest{})
	if err != nil || r.GetHandOff().GetReasons()["fallback_crash"] != 1 || r.GetHandOff().GetFallback() != 0 {
		t.Errorf("hand-offs %v, %v; want one crash and no fallback", r.GetHandOff(), err)
	}
}

func TestAProcessorThatDoesNotProceedLosesItsTurn(t *testing.T) {
	h := newHarness(t, nil)
	h.d.proceedWithin = 50 * time.Millisecond
	h.start()
	stuck, other := h.attach("a", "1"), h.attach("b", "1")
	stuck.submit(1, 1, suspect(3))
	take(t, "the trial", stuck.tried)
	other.submit(1, 1, suspect(3))
	if e := stuck.end(); codes.Code(e.GetCode()) != codes.Unavailable {
		t.Errorf("ended %v, want UNAVAILABLE, after which it may go elsewhere", e)
	}
	other.proceed(take(t, "the trial of the next", other.tried))
	if e := other.end(); e.GetReason() != byLength {
		t.Errorf("ended %v", e)
	}
	h.checkIdle()
}
