package prefillworker

import (
	"context"
	"testing"

	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

func TestAJobThatIsKeptForThisWorkerIsDone(t *testing.T) {
	h := newHarness(t, nil).start()
	job := h.keep()
	if n := h.decode.answerNote(committed); n.GetTransferId() != job.GetTransferId() {
		t.Errorf("note %v, want one of %s", n, job.GetTransferId())
	}
	h.publish(nil) // and those of everybody as well
	h.decode.answerNote(committed)
	h.acknowledged()
	h.checkIdle()
}

// Kept jobs take the room for which this worker had asked for another job: that one goes back.
func TestAJobThatKeptOnesLeaveNoRoomForIsGivenBack(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Jobs = 1 })
	begun, release := make(chan struct{}, 1), make(chan struct{})
	h.step = func(ctx context.Context) error {
		select {
		case begun <- struct{}{}:
		default:
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	h.start()
	h.publish(nil)
	take(t, "the first job's step", begun)
	kept := h.keep()
	release <- struct{}{}
	h.decode.answerNote(committed)
	take(t, "the kept job's step", begun)
	other := h.publish(nil)
	jobs, err := h.queue.Pull(within(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	if jobs[0].Request.GetTransferId() != other.GetTransferId() {
		t.Errorf("another worker got %s, want %s", jobs[0].Request.GetTransferId(), other.GetTransferId())
	}
	if err := jobs[0].Ack(); err != nil {
		t.Fatal(err)
	}
	close(release)
	if n := h.decode.answerNote(committed); n.GetTransferId() != kept.GetTransferId() {
		t.Errorf("note of %s, want %s", n.GetTransferId(), kept.GetTransferId())
	}
	h.acknowledged()
}

// A job of everybody that was there first is not overtaken by kept ones for good.
func TestKeptJobsDoNotStarveTheOthers(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Jobs = 1 })
	for range 6 {
		h.keep()
	}
	shared := h.publish(nil)
	h.start()
	at := 0
	for i := range 7 {
		if h.decode.answerNote(committed).GetTransferId() == shared.GetTransferId() {
			at = i
		}
	}
	if at > 3 {
		t.Errorf("%d of 6 kept jobs were done first", at)
	}
	h.acknowledged()
	h.report("all are done", func(r *prefillworkerv1.JobReport) bool { return r.GetCommitted() == 7 })
}
