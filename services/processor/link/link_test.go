package link_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor/link"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events turns the calls into channels.
type events struct {
	attached chan struct{}
	detached chan error
	loads    chan *decodeworkerv1.Load
}

func newEvents() *events {
	return &events{make(chan struct{}, 99), make(chan error, 99), make(chan *decodeworkerv1.Load, 99)}
}

func (e *events) Attached()                     { e.attached <- struct{}{} }
func (e *events) Detached(err error)            { e.detached <- err }
func (e *events) Loaded(l *decodeworkerv1.Load) { e.loads <- l }

// start runs a link until the test ends.
func start(t testing.TB, client decodeworkerv1.DecodeWorkerClient) (*link.Link, *events) {
	t.Helper()
	e := newEvents()
	l := link.New(link.Config{
		Processor: "p", Incarnation: "7", Worker: "w", WorkerIncarnation: "1",
		Client: client, Events: e, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return l, e
}

func attach(t testing.TB, w *workertest.Worker) (*link.Link, *events) {
	t.Helper()
	l, e := start(t, w.Dial(t))
	<-e.attached
	return l, e
}

func submission(booking uint64, maxTokens int) link.Submission {
	return link.Submission{Booking: booking, Sequence: &generationv1.Sequence{
		Prompt: []uint32{uint32(booking), 2, 3}, MaxTokens: uint32(maxTokens),
	}}
}

// all takes a sequence to its end.
func all(t testing.TB, q *link.Sequence) (tokens []sequence.Token, end *decodeworkerv1.Ended, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for end == nil && err == nil {
		var got link.Taken
		got, err = q.Take(ctx, nil)
		tokens, end = append(tokens, got.Tokens...), got.End
	}
	return tokens, end, err
}

// next is the next message that the worker received.
func next(t testing.TB, w *workertest.Worker) *decodeworkerv1.AttachRequest {
	t.Helper()
	select {
	case m := <-w.Received:
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("the worker received nothing within 10 s")
		return nil
	}
}

func TestSequencesShareAStream(t *testing.T) {
	w := workertest.Start(t, "w", nil)
	l, _ := attach(t, w)
	hello := next(t, w).GetHello()
	if hello.GetProcessor() != "p" || hello.GetProcessorIncarnation() != "7" || hello.GetWorkerIncarnation() != "1" {
		t.Errorf("hello is %v", hello)
	}
	var sequences []*link.Sequence
	for i := range 20 {
		sequences = append(sequences, l.Submit(submission(uint64(i+1), 5+i)))
	}
	for i, q := range sequences {
		tokens, end, err := all(t, q)
		if err != nil || end.GetReason() != generationv1.FinishReason_FINISH_REASON_LENGTH {
			t.Fatalf("sequence %d: end %v, %v", i, end, err)
		}
		if diff := cmp.Diff(workertest.Tokens(submission(uint64(i+1), 5+i).Sequence), tokens); diff != "" {
			t.Errorf("sequence %d (-want +got):\n%s", i, diff)
		}
		q.Close("")
	}
	ids := map[uint32]bool{}
	for i := range 20 {
		sub := next(t, w).GetSubmit()
		if sub.GetBooking() != uint64(i+1) || ids[sub.GetSequenceId()] {
			t.Errorf("message %d: booking %d, sequence id %d; want booking %d and a new id", i, sub.GetBooking(), sub.GetSequenceId(), i+1)
		}
		ids[sub.GetSequenceId()] = true
	}
}

// The test is a race for the moment between a token and the end that came with it: enough rounds find one.
func TestEndComesWithTheLastToken(t *testing.T) {
	w := workertest.Start(t, "w", nil)
	l, _ := attach(t, w)
	for n := range 3000 {
		q := l.Submit(submission(uint64(n), 1))
		got, err := q.Take(t.Context(), nil)
		tokens, end := got.Tokens, got.End
		if err != nil || len(tokens) != 1 || end == nil {
			t.Fatalf("round %d: took %v, end %v, %v; want a token and the end", n, tokens, end, err)
		}
		q.Close("")
	}
}

func TestSequenceThatIsNotReadStallsNoOther(t *testing.T) {
	const n = 200_000 // far more than the connection buffers
	l, _ := attach(t, workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		for tokens := range slices.Chunk(make([]uint32, n), 1_000) {
			s.Batch(sub.GetSequenceId(), nil, tokens...)
		}
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{})
	}))
	stuck := l.Submit(submission(1, n))
	defer stuck.Close("")
	tokens, _, err := all(t, l.Submit(submission(2, n)))
	if err != nil || len(tokens) != n {
		t.Fatalf("the other sequence gave %d tokens, %v", len(tokens), err)
	}
}

func TestTraceContextTravels(t *testing.T) {
	w := workertest.Start(t, "w", nil)
	l, _ := attach(t, w)
	sub := submission(1, 1)
	sub.TraceContext = map[string]string{"traceparent": "00-1"}
	defer l.Submit(sub).Close("")
	next(t, w)
	if got := next(t, w).GetSubmit().GetTraceContext()["traceparent"]; got != "00-1" {
		t.Errorf("traceparent is %q", got)
	}
}

// untilCancelled sends one token and waits for the cancel.
func untilCancelled(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
	s.Batch(sub.GetSequenceId(), nil, 1)
	<-ctx.Done()
	s.Batch(sub.GetSequenceId(), nil, 2)
	s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{Reason: generationv1.FinishReason_FINISH_REASON_CANCELLED, CachedTokens: 3})
}

func TestCancelReachesTheWorkerAndTheEndComesBack(t *testing.T) {
	l, _ := attach(t, workertest.Start(t, "w", untilCancelled))
	q := l.Submit(submission(1, 9))
	if got, err := q.Take(t.Context(), nil); err != nil || len(got.Tokens) != 1 {
		t.Fatalf("first Take: %v, %v", got, err)
	}
	if q.Cancel("stop text") {
		t.Error("Cancel says that the sequence was never sent")
	}
	tokens, end, err := all(t, q)
	if len(tokens) != 0 || end.GetCachedTokens() != 3 || err != nil {
		t.Errorf("after the cancel: tokens %v, end %v, %v; want only the end", tokens, end, err)
	}
}

func TestClosedSequenceIsForgotten(t *testing.T) {
	w := workertest.Start(t, "w", untilCancelled)
	l, _ := attach(t, w)
	q := l.Submit(submission(1, 9))
	next(t, w)
	id := next(t, w).GetSubmit().GetSequenceId()
	q.Close("client gone")
	if c := next(t, w).GetCancel(); c.GetSequenceId() != id || c.GetReason() != "client gone" {
		t.Errorf("worker received %v, want the cancel of %d", c, id)
	}
	q.Close("again") // must not send another
	defer l.Submit(submission(2, 9)).Close("")
	if m := next(t, w); m.GetSubmit() == nil {
		t.Errorf("worker received %v, want the next submit", m)
	}
}

func TestTooManyTokensEndASequence(t *testing.T) {
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), nil, 1, 2, 3)
	})
	l, _ := attach(t, w)
	tokens, _, err := all(t, l.Submit(submission(1, 2)))
	if len(tokens) != 2 || err == nil {
		t.Errorf("tokens %v, %v; want two and an error", tokens, err)
	}
	next(t, w)
	id := next(t, w).GetSubmit().GetSequenceId()
	if c := next(t, w).GetCancel(); c.GetSequenceId() != id {
		t.Errorf("worker received %v, want the cancel of %d", c, id)
	}
}

func TestTakeEndsWithItsContext(t *testing.T) {
	l, _ := attach(t, workertest.Start(t, "w", untilCancelled))
	q := l.Submit(submission(1, 9))
	defer q.Close("")
	if _, err := q.Take(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Take(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Take: %v, want context.Canceled", err)
	}
}

func TestBrokenStreamEndsItsSequencesAndIsOpenedAgain(t *testing.T) {
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), nil, 1, 2)
		<-ctx.Done()
	})
	l, e := attach(t, w)
	q := l.Submit(submission(1, 9))
	first, err := q.Take(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Break()
	<-e.detached
	rest, _, err := all(t, q)
	if got := slices.Concat(first.Tokens, rest); len(got) != 2 {
		t.Errorf("tokens %v, want both that came before", got)
	}
	var broken *link.BrokenError
	if !errors.As(err, &broken) || !broken.Lost || broken.Worker != "w" {
		t.Errorf("error %v, want a BrokenError that says lost", err)
	}
	<-e.attached
	if q := l.Submit(submission(1, 9)); q == nil {
		t.Error("no submit after the reconnect")
	} else {
		q.Close("")
	}
}

func TestDeadWorkerTakesNothing(t *testing.T) {
	w := workertest.Start(t, "w", nil)
	l, e := attach(t, w)
	w.Kill()
	<-e.detached
	if q := l.Submit(submission(1, 9)); q != nil {
		t.Error("a submit to a dead worker was taken")
	}
}

func TestDrainedLinkEndsWithItsLastSequence(t *testing.T) {
	w := workertest.Start(t, "w", untilCancelled)
	l := link.New(link.Config{Worker: "w", WorkerIncarnation: "1", Client: w.Dial(t), Events: newEvents(), Logger: slog.New(slog.DiscardHandler)})
	ran := make(chan error, 1)
	go func() { ran <- l.Run(t.Context()) }()
	next(t, w)
	var q *link.Sequence
	for q == nil {
		q = l.Submit(submission(1, 9))
		runtime.Gosched()
	}
	l.Drain()
	if l.Submit(submission(2, 9)) != nil {
		t.Error("a submit after Drain was taken")
	}
	if got, err := q.Take(t.Context(), nil); err != nil || len(got.Tokens) != 1 {
		t.Errorf("Take after Drain: %v, %v; want the sequence to go on", got, err)
	}
	select {
	case err := <-ran:
		t.Errorf("Run ended with a sequence running: %v", err)
	default:
	}
	q.Close("")
	if err := <-ran; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestLoadIsHandedOn(t *testing.T) {
	w := workertest.Start(t, "w", nil)
	_, e := attach(t, w)
	<-e.loads
	w.Report(&decodeworkerv1.Load{Booked: []*decodeworkerv1.Booked{{Processor: "p", Booking: 4}}})
	if got := (<-e.loads).GetBooked()[0].GetBooking(); got != 4 {
		t.Errorf("booking %d, want 4", got)
	}
}

func TestAnotherIncarnationEndsTheLink(t *testing.T) {
	w := workertest.Start(t, "w", nil)
	l := link.New(link.Config{
		Worker: "w", WorkerIncarnation: "0", Client: w.Dial(t), Events: newEvents(), Logger: slog.New(slog.DiscardHandler),
	})
	if err := l.Run(t.Context()); !errors.Is(err, link.ErrEnded) {
		t.Errorf("Run: %v, want ErrEnded", err)
	}
}

// silent is a worker that cannot be reached, or accepts a stream and says nothing.
type silent struct {
	decodeworkerv1.DecodeWorkerClient
	attempts []time.Time
	hang     bool
}

func (s *silent) Attach(ctx context.Context, _ ...grpc.CallOption) (decodeworkerv1.DecodeWorker_AttachClient, error) {
	s.attempts = append(s.attempts, time.Now())
	if s.hang {
		<-ctx.Done()
	}
	return nil, status.Error(codes.Unavailable, "connection refused")
}

func TestReconnectsAreAtMostASecondApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &silent{}
		start(t, client)
		time.Sleep(time.Minute) // virtual
		synctest.Wait()
		if n := len(client.attempts); n < 60 || n > 140 {
			t.Errorf("%d attempts in a minute, want 60 to 140", n)
		}
		for i := range client.attempts[1:] {
			if gap := client.attempts[i+1].Sub(client.attempts[i]); gap > time.Second || gap < 20*time.Millisecond {
				t.Errorf("attempts %v apart", gap)
			}
		}
	})
}

func TestSilentWorkerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &silent{hang: true}
		start(t, client)
		time.Sleep(21 * time.Second) // virtual
		synctest.Wait()
		if n := len(client.attempts); n != 5 {
			t.Errorf("%d attempts in 21 s, want one each 5 s and a little", n)
		}
	})
}

// BenchmarkTokens is a token's way from the worker's Send to Take, over loopback.
func BenchmarkTokens(b *testing.B) {
	const batch = 32
	w := workertest.Start(b, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		ids, tokens := make([]uint32, batch), make([]uint32, batch)
		for i := range ids {
			ids[i] = sub.GetSequenceId()
		}
		m := &decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Batch{
			Batch: &decodeworkerv1.StepBatch{SequenceIds: ids, Tokens: tokens},
		}}
		for sent := 0; sent < int(sub.GetSequence().GetMaxTokens()); sent += batch {
			s.Send(m)
		}
	})
	l, _ := attach(b, w)
	b.ReportAllocs()
	n := (b.N + batch - 1) / batch * batch
	q := l.Submit(submission(1, n))
	defer q.Close("")
	var tokens []sequence.Token
	for got := 0; got < n; got += len(tokens) {
		taken, err := q.Take(b.Context(), tokens)
		if err != nil {
			b.Fatal(err)
		}
		tokens = taken.Tokens
	}
}
