package decodeworker

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
)

// A draining worker must go on to answer claims: a sequence whose prompt is computed
// elsewhere could not finish otherwise.
func TestADrainingWorkerFinishesWhatIsPrefilledElsewhere(t *testing.T) {
	h := newHarness(t, nil).start()
	always(h)
	p, s := h.prefiller(), h.attach("p", "1")
	s.submit(1, 1, spec(6))
	job := take(t, "a job", h.queue.arrived)
	h.terminate()
	if i := take(t, "a change of the entry", h.entry.changes); !i.GetDraining() {
		t.Errorf("the entry became %v, want draining", i)
	}
	s.submit(2, 2, spec(6))
	if e := s.end(); e.GetSequenceId() != 2 || codes.Code(e.GetCode()) != codes.Unavailable {
		t.Errorf("a sequence that came late ended %v, want unavailable", e)
	}
	select {
	case <-h.entry.left:
		t.Error("the entry went before the last sequence had ended")
	default:
	}
	p.complete(job, p.claim(job, "a").GetTicket(), prompt, enginetest.ToyAnswer(prompt, 1)[0])
	if e := s.end(); e.GetReason() != byLength || e.GetPlacement() != placedThere {
		t.Errorf("ended %v", e)
	}
	s.check(1, 6)
	if err := take(t, "the end of the stream", s.err); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	h.stopped()
}

func TestAnIdleWorkerLeavesAtOnce(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Drain = time.Hour }).start()
	s := h.attach("p", "1")
	s.booked(0)
	h.terminate()
	if err := take(t, "the end of the stream", s.err); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	h.stopped()
}

func TestTheDrainTimeEndsWhatStillRuns(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Drain = 50 * time.Millisecond })
	g := newGate()
	h.step = g.wait
	h.start()
	s := h.attach("p", "1")
	s.submit(1, 1, spec(100))
	g.one <- struct{}{}
	take(t, "a token", s.token)
	h.terminate()
	take(t, "the end of the stream", s.err)
	h.stopped()
}

func TestAPartThatFailsEndsTheServiceAtOnce(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Drain = time.Hour })
	g := newGate()
	h.step = g.wait
	h.start()
	s := h.attach("p", "1")
	s.submit(1, 1, spec(100))
	s.booked(1)
	broken := errors.New("broken")
	h.entry.fail <- broken
	if err := take(t, "the end of Run", h.ran); !errors.Is(err, broken) {
		t.Errorf("Run: %v, want %v", err, broken)
	}
	h.ran <- nil
}
