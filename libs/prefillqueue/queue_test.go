package prefillqueue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestAJobArrivesWholeAndEndsWithItsAck(t *testing.T) {
	q := fresh(t, nil)
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	sent := job("t1")
	sent.Deadline = timestamppb.New(time.Now().Add(90*time.Second + time.Millisecond))
	sequence, err := q.Publish(trace.ContextWithSpanContext(within(t), span), sent, "")
	if err != nil {
		t.Fatal(err)
	}
	got := pull(t, q, 5)
	if len(got) != 1 {
		t.Fatalf("%d jobs, want 1", len(got))
	}
	j := got[0]
	if !proto.Equal(j.Request, sent) || j.Sequence != sequence || j.Delivered != 1 || time.Since(j.Published) > time.Minute {
		t.Errorf("job %+v, want %v as number %d, delivered once", j, sent, sequence)
	}
	parent := trace.SpanContextFromContext(j.Context(t.Context()))
	if parent.TraceID() != span.TraceID() || parent.SpanID() != span.SpanID() || !parent.IsRemote() {
		t.Errorf("parent span %v, want %v, remote", parent, span)
	}
	if ttl := j.msg.Headers().Get("Nats-TTL"); ttl != "91s" && ttl != "1m31s" {
		t.Errorf("TTL %q, want the deadline rounded up to 91 s", ttl)
	}
	if err := j.Ack(); err != nil {
		t.Fatal(err)
	}
	depth(t, q, 0, 0)
}

func TestTheBoundCountsJobsInWorkAndOtherQueuesAreFree(t *testing.T) {
	nc := connect(t, startNATS(t, "").URL())
	limit := func(c *Config) { c.MaxJobs = 2 }
	q := open(t, nc, limit)
	publish(t, q, job("t1"))
	publish(t, q, job("t2"))
	working := pull(t, q, 1)
	if _, err := q.Publish(within(t), job("t3"), ""); !errors.Is(err, ErrFull) {
		t.Errorf("third job: %v, want %v", err, ErrFull)
	}
	for _, other := range []func(*Config){
		func(c *Config) { limit(c); c.KVFormat = "format.2" },
		func(c *Config) { limit(c); c.Priority = "high" },
		func(c *Config) { limit(c); c.Pool = "big prompts" },
	} {
		publish(t, open(t, nc, other), job("t4"))
	}
	if err := working[0].Ack(); err != nil {
		t.Fatal(err)
	}
	depth(t, q, 1, 0)
	publish(t, q, job("t3"))
}

func TestAPullNeverTakesMoreThanItAsksFor(t *testing.T) {
	q := fresh(t, nil)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		publish(t, q, job(id))
	}
	depth(t, q, 5, 0)
	for _, want := range []struct{ ask, got, waiting int }{{2, 2, 3}, {1, 1, 2}, {9, 2, 0}} {
		if got := pull(t, q, want.ask); len(got) != want.got {
			t.Errorf("Pull(%d) = %d jobs, want %d", want.ask, len(got), want.got)
		}
		depth(t, q, want.waiting, 5-want.waiting)
	}
	if _, err := q.Pull(t.Context(), 0); err == nil {
		t.Error("Pull(0) is no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Pull(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Pull with an ended context: %v", err)
	}
}

func TestAWaitingPullTakesOneJobAtOnce(t *testing.T) {
	q := fresh(t, nil)
	got := make(chan []*Job)
	go func() {
		jobs, err := q.Pull(within(t), 4)
		if err != nil {
			t.Error(err)
		}
		got <- jobs
	}()
	publish(t, q, job("t1"))
	if jobs := <-got; len(jobs) != 1 || jobs[0].Request.GetTransferId() != "t1" {
		t.Errorf("jobs %v, want t1", jobs)
	}
}

func TestAMessageIDCountsOnceAndATransferMayBePublishedTwice(t *testing.T) {
	q := fresh(t, nil)
	first := publish(t, q, job("t1"))
	if again := publish(t, q, job("t1")); again != first {
		t.Errorf("the same message id: number %d, want %d", again, first)
	}
	if _, err := q.Publish(within(t), job("t1"), "another id"); err != nil {
		t.Fatal(err)
	}
	depth(t, q, 2, 0) // Pull takes what the server has counted
	jobs := pull(t, q, 5)
	if len(jobs) != 2 || jobs[0].Request.GetTransferId() != "t1" || jobs[1].Request.GetTransferId() != "t1" {
		t.Errorf("jobs %v, want t1 twice", jobs)
	}
}

func TestAJobGivenBackComesAgain(t *testing.T) {
	q := fresh(t, nil)
	sequence := publish(t, q, job("t1"))
	if err := pull(t, q, 1)[0].Nak(20 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	again := pull(t, q, 1)[0]
	if again.Delivered != 2 || again.Sequence != sequence {
		t.Errorf("delivery %d of number %d, want the second of %d", again.Delivered, again.Sequence, sequence)
	}
	if err := again.Term("nobody can"); err != nil {
		t.Fatal(err)
	}
	depth(t, q, 0, 0)
}

func TestASilentJobComesAgainAndOneThatIsHeldDoesNot(t *testing.T) {
	t.Parallel()
	const wait = 2 * time.Second // a busy machine may stop this process for a good part of a second
	q := fresh(t, func(c *Config) { c.AckWait = wait })
	publish(t, q, job("t1"))
	pull(t, q, 1)
	again := pull(t, q, 1)[0]
	if again.Delivered != 2 {
		t.Fatalf("delivery %d, want the second", again.Delivered)
	}
	held, release := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- again.Hold(held) }()
	// The wait is the test: longer than a silent job may last.
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait+wait/2)
	defer cancel()
	if jobs, err := q.Pull(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held job came again: %v, %v", jobs, err)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if third := pull(t, q, 1)[0]; third.Delivered != 3 {
		t.Errorf("delivery %d after the holding ended, want the third", third.Delivered)
	}
}

func TestTheEndOfAJobEndsItsHolding(t *testing.T) {
	t.Parallel()
	q := fresh(t, func(c *Config) { c.AckWait = 100 * time.Millisecond })
	publish(t, q, job("t1"))
	j := pull(t, q, 1)[0]
	if err := j.Ack(); err != nil {
		t.Fatal(err)
	}
	if err := j.Hold(within(t)); err != nil {
		t.Error(err)
	}
}

func TestAJobThatIsKeptReachesItsWorkerAlone(t *testing.T) {
	q := fresh(t, nil)
	own := open(t, q.conn, func(c *Config) { c.Worker = "host.a" })
	other := open(t, q.conn, func(c *Config) { c.Worker = "host.b" })
	number, err := q.PublishFor(within(t), "host.a", job("t1"), "")
	if err != nil {
		t.Fatal(err)
	}
	depth(t, own, 1, 0) // the server has counted it
	depth(t, q, 0, 1)
	for _, wrong := range []*Queue{q, other} {
		if jobs, err := wrong.TryPull(within(t), 1); err != nil || len(jobs) != 0 {
			t.Errorf("%s got %v, %v; want nothing", wrong.cfg.subject(), jobs, err)
		}
	}
	got := pull(t, own, 1)[0]
	if got.Sequence != number || got.Request.GetTransferId() != "t1" {
		t.Errorf("job %+v, want number %d", got, number)
	}
	depth(t, q, 0, 1)
	if err := got.Ack(); err != nil {
		t.Fatal(err)
	}
	depth(t, q, 0, 0)
}

func TestAKeptJobCanBeTakenBackAndShared(t *testing.T) {
	q := fresh(t, nil)
	own := open(t, q.conn, func(c *Config) { c.Worker = "a" })
	number, err := q.PublishFor(within(t), "a", job("t1"), "t1#1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Publish(within(t), job("t1"), "t1#2"); err != nil {
		t.Fatal(err)
	}
	if err := q.Delete(within(t), number); err != nil {
		t.Fatal(err)
	}
	pull(t, q, 1)
	depth(t, own, 0, 0)
}

func TestATryTakesWhatIsThere(t *testing.T) {
	q := fresh(t, nil)
	if jobs, err := q.TryPull(within(t), 3); err != nil || len(jobs) != 0 {
		t.Errorf("an empty queue gives %v, %v", jobs, err)
	}
	publish(t, q, job("t1"))
	publish(t, q, job("t2"))
	depth(t, q, 2, 0)
	if jobs, err := q.TryPull(within(t), 1); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs, %v; want one of the two", len(jobs), err)
	}
	if _, err := q.TryPull(within(t), 0); err == nil {
		t.Error("TryPull(0) is no error")
	}
}

func TestADeletedJobIsGone(t *testing.T) {
	q := fresh(t, nil)
	first, second := publish(t, q, job("t1")), publish(t, q, job("t2"))
	if err := q.Delete(within(t), first); err != nil {
		t.Fatal(err)
	}
	jobs := pull(t, q, 2)
	if len(jobs) != 1 || jobs[0].Sequence != second {
		t.Fatalf("jobs %v, want only the second", jobs)
	}
	for _, sequence := range []uint64{second, second, second + 1000} {
		if err := q.Delete(within(t), sequence); err != nil {
			t.Errorf("delete %d: %v, want nil", sequence, err)
		}
	}
	if err := jobs[0].Ack(); err != nil {
		t.Errorf("ack of a deleted job: %v", err)
	}
	depth(t, q, 0, 0)
}

func TestAJobPastItsDeadlineIsNotPublished(t *testing.T) {
	q := fresh(t, nil)
	late, none := job("t1"), job("t2")
	late.Deadline = timestamppb.New(time.Now().Add(-time.Millisecond))
	none.Deadline = nil
	for _, j := range []string{late.TransferId, none.TransferId} {
		sent := late
		if j == none.TransferId {
			sent = none
		}
		if _, err := q.Publish(within(t), sent, ""); !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), j) {
			t.Errorf("job %s: %v, want %v", j, err, ErrExpired)
		}
	}
}

func TestALongPromptStaysBehind(t *testing.T) {
	q := fresh(t, func(c *Config) { c.MaxMessageBytes = 1024 })
	long := job("t1")
	long.Sequence.Prompt = make([]uint32, 2000)
	long.ReservedBlocks = []int32{4, 5}
	publish(t, q, long)
	if long.Sequence == nil {
		t.Error("the caller's message was changed")
	}
	want := proto.CloneOf(long)
	want.Sequence = nil
	if got := pull(t, q, 1)[0].Request; !proto.Equal(got, want) {
		t.Errorf("job %v, want all but the sequence", got)
	}
}

func TestWhatIsNoJobIsDropped(t *testing.T) {
	q := fresh(t, nil)
	for _, data := range []string{"nonsense", ""} {
		if _, err := q.js.Publish(within(t), q.cfg.subject(), []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, q, job("t1"))
	depth(t, q, 3, 0)
	jobs := pull(t, q, 5)
	if len(jobs) != 1 || jobs[0].Request.GetTransferId() != "t1" {
		t.Fatalf("jobs %v, want t1", jobs)
	}
	depth(t, q, 0, 1)
}

func TestTheDepthTellsTheOldestAndIsCached(t *testing.T) {
	q := fresh(t, func(c *Config) { c.DepthAge = time.Hour })
	publish(t, q, job("t1"))
	publish(t, q, job("t2"))
	depth(t, open(t, q.conn, nil), 2, 0) // the server counts a job a moment after it has taken it
	d, err := q.Depth(within(t))
	if err != nil || d.Waiting != 2 || d.Working != 0 || d.Oldest <= 0 || d.Oldest > time.Minute {
		t.Errorf("depth %+v, %v; want 2 waiting", d, err)
	}
	publish(t, q, job("t3"))
	if again, err := q.Depth(within(t)); err != nil || again != d {
		t.Errorf("depth %+v, %v; want the known %+v", again, err, d)
	}
}

func TestALimitThatChangedIsBroughtIn(t *testing.T) {
	nc := connect(t, startNATS(t, "").URL())
	q := open(t, nc, nil)
	first := publish(t, q, job("t1"))
	q = open(t, nc, func(c *Config) { c.MaxJobs = 1 })
	if _, err := q.Publish(within(t), job("t2"), ""); !errors.Is(err, ErrFull) {
		t.Errorf("second job: %v, want %v", err, ErrFull)
	}
	if jobs := pull(t, q, 2); len(jobs) != 1 || jobs[0].Sequence != first {
		t.Errorf("jobs %v, want the one from before", jobs)
	}
}

func TestInvalidConfigurationNamesTheField(t *testing.T) {
	for field, spoil := range map[string]func(*Config){
		"stream":      func(c *Config) { c.Stream = "a.b" },
		"kv_format":   func(c *Config) { c.KVFormat = "" },
		"max_jobs":    func(c *Config) { c.MaxJobs = 0 },
		"ack_wait":    func(c *Config) { c.AckWait = 0 },
		"replicas":    func(c *Config) { c.Replicas = 0 },
		"max_message": func(c *Config) { c.MaxMessageBytes = 1 },
	} {
		cfg := DefaultConfig()
		cfg.KVFormat = "f"
		spoil(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
