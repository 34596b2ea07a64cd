package decodeworker

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/scheduler"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const (
	byLength    = generationv1.FinishReason_FINISH_REASON_LENGTH
	byCancel    = generationv1.FinishReason_FINISH_REASON_CANCELLED
	byError     = generationv1.FinishReason_FINISH_REASON_ERROR
	placedHere  = generationv1.Placement_PLACEMENT_LOCAL
	placedThere = generationv1.Placement_PLACEMENT_REMOTE
)

// gate lets steps through one by one, or all of them once it is open.
type gate struct {
	one  chan struct{}
	open chan struct{}
}

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) wait(ctx context.Context) error {
	select {
	case <-g.one:
	case <-g.open:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func TestSequencesShareAStream(t *testing.T) {
	h := newHarness(t, nil).start()
	s := h.attach("p", "1")
	for id := range uint32(3) {
		s.submit(id, uint64(id)+1, spec(5+id))
	}
	for range 3 {
		e := s.end()
		if e.GetReason() != byLength || e.GetPlacement() != placedHere {
			t.Errorf("ended %v, want length, placed here", e)
		}
		s.check(e.GetSequenceId(), 5+int(e.GetSequenceId()))
	}
	s.submit(1, 4, spec(2)) // an id may be used again
	if e := s.end(); e.GetReason() != byLength {
		t.Errorf("ended %v", e)
	}
	h.checkIdle()
}

func TestTheSpeedToldIsTheSpeedLearnt(t *testing.T) {
	h := newHarness(t, nil)
	if s := h.d.speed(); s != nil {
		t.Errorf("%v is told before anything was measured", s)
	}
	var r scheduler.Report
	for i := range uint64(60) {
		sequences, tokens := 1+i%7, 3000*(1+i*4%11)
		r.Steps, r.GeneratedTokens, r.ContextTokens = r.Steps+20, r.GeneratedTokens+20*sequences, r.ContextTokens+20*tokens
		r.DecodeBusy += 20 * (10*time.Millisecond + time.Duration(sequences)*time.Millisecond + time.Duration(tokens)*700)
		h.d.speeds.Steps(time.Now(), r, 0)
		r.Steps, r.PromptTokens, r.PrefillBusy = r.Steps+1, r.PromptTokens+200, r.PrefillBusy+410*time.Millisecond
		h.d.speeds.Steps(time.Now(), r, 0)
	}
	s := h.d.speed()
	for what, v := range map[string]struct{ got, want float64 }{
		"a row":      {s.GetPrefillToken().AsDuration().Seconds(), 0.002},
		"a step":     {s.GetStep().AsDuration().Seconds(), 0.010},
		"a sequence": {s.GetStepSequence().AsDuration().Seconds(), 0.001},
		"a token":    {s.GetStepTokenNanoseconds(), 700},
	} {
		if v.got < 0.7*v.want || v.got > 1.3*v.want {
			t.Errorf("%s is told to take %v, want %v within 30 %%", what, v.got, v.want)
		}
	}
}

func TestLoadNamesTheBookingsThatWereAdmittedRefusedOrVoided(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	s := h.attach("p", "1")
	s.booked(0)
	s.submit(1, 1, spec(4))
	if l := s.booked(1); l.GetReport().GetRunningSequences() != 1 {
		t.Errorf("the report beside booking 1: %v, want one running sequence", l.GetReport())
	}
	s.submit(2, 2, &generationv1.Sequence{MaxTokens: 1}) // no prompt
	if e := s.end(); e.GetReason() != byError || codes.Code(e.GetCode()) != codes.InvalidArgument {
		t.Errorf("ended %v, want an invalid argument", e)
	}
	s.booked(2)
	s.send(&decodeworkerv1.AttachRequest{Message: &decodeworkerv1.AttachRequest_Void{Void: &decodeworkerv1.Void{Booking: 3}}})
	s.booked(3)
	close(g.open)
	s.end()
}

func TestANewStreamOfTheSameProcessorTakesThePlaceOfTheOld(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	old := h.attach("p", "1")
	old.submit(1, 7, spec(4))
	old.booked(7)
	other := h.attach("p", "2") // another life is another processor
	other.booked(7, 0)
	s := h.attach("p", "1")
	s.booked(0, 0) // not 7: that would hide the bookings of the new stream
	if err := take(t, "the end of the old stream", old.err); status.Code(err) != codes.Canceled {
		t.Errorf("the old stream ended with %v", err)
	}
	close(g.open)
	h.checkIdle()
}

func TestACancelEndsASequenceOnce(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	s := h.attach("p", "1")
	s.submit(1, 1, spec(140))
	g.one <- struct{}{}
	take(t, "a token", s.token)
	s.cancel(1)
	s.cancel(1)
	s.cancel(9) // unknown: nothing happens
	s.submit(2, 2, spec(1))
	s.booked(2)
	ends := map[uint32]generationv1.FinishReason{}
	pulse := time.NewTicker(time.Millisecond) // a step each, so that the cancel comes before the 140th
	defer pulse.Stop()
	for len(ends) < 2 {
		select {
		case e := <-s.ended:
			ends[e.GetSequenceId()] = e.GetReason()
		case <-pulse.C:
			select {
			case g.one <- struct{}{}:
			default:
			}
		}
	}
	if ends[1] != byCancel || ends[2] != byLength {
		t.Errorf("ends %v", ends)
	}
	close(g.open)
	h.checkIdle()
	if len(s.ended) != 0 {
		t.Errorf("a second end: %v", <-s.ended)
	}
}

func TestACancelOfAWaitingSequenceEndsIt(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Pool.RunningMax = 1 })
	g := newGate()
	h.step = g.wait
	h.start()
	s := h.attach("p", "1")
	s.submit(1, 1, spec(4))
	s.submit(2, 2, spec(4))
	s.booked(2)
	s.cancel(2)
	if e := s.end(); e.GetSequenceId() != 2 || e.GetReason() != byCancel {
		t.Errorf("ended %v, want 2 cancelled", e)
	}
	close(g.open)
	s.end()
	h.checkIdle()
}

func TestADeadlineInThePastEndsASequence(t *testing.T) {
	h := newHarness(t, nil).start()
	s := h.attach("p", "1")
	q := spec(100)
	q.Deadline = timestamppb.New(time.Now().Add(-time.Hour))
	s.submit(1, 1, q)
	if e := s.end(); e.GetReason() != byCancel {
		t.Errorf("ended %v, want cancelled", e)
	}
	h.checkIdle()
}

func TestTheEndOfAStreamEndsItsSequences(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	s := h.attach("p", "1")
	s.submit(1, 1, spec(100))
	s.booked(1)
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	take(t, "the end of the stream", s.err)
	close(g.open)
	h.checkIdle()
}

func TestWhatBreaksTheRulesOfAStreamEndsIt(t *testing.T) {
	hello := func(worker string) *decodeworkerv1.AttachRequest {
		return &decodeworkerv1.AttachRequest{Message: &decodeworkerv1.AttachRequest_Hello{Hello: &decodeworkerv1.Hello{
			Processor: "p", ProcessorIncarnation: "1", WorkerIncarnation: worker,
		}}}
	}
	submit := &decodeworkerv1.AttachRequest{Message: &decodeworkerv1.AttachRequest_Submit{Submit: &decodeworkerv1.Submit{
		SequenceId: 1, Sequence: spec(100),
	}}}
	for _, tc := range []struct {
		name     string
		messages []*decodeworkerv1.AttachRequest
		want     codes.Code
	}{
		{"another life of the worker is meant", []*decodeworkerv1.AttachRequest{hello("0")}, codes.FailedPrecondition},
		{"no hello", []*decodeworkerv1.AttachRequest{submit}, codes.InvalidArgument},
		{"two hellos", []*decodeworkerv1.AttachRequest{hello("1"), hello("1")}, codes.InvalidArgument},
		{"an id that is in use", []*decodeworkerv1.AttachRequest{hello("1"), submit, submit}, codes.InvalidArgument},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t, nil)
			g := newGate()
			h.step = g.wait
			h.start()
			client, err := h.client.Attach(within(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range tc.messages {
				if err := client.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			for err == nil {
				_, err = client.Recv()
			}
			if status.Code(err) != tc.want {
				t.Errorf("the stream ended with %v, want %v", err, tc.want)
			}
			close(g.open)
			h.checkIdle()
		})
	}
}
