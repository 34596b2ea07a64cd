package processor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

// dying answers with so many tokens of a sequence, tells the test, and goes silent.
func dying(after int, silent chan<- string, name string) workertest.Behaviour {
	return func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), nil, workertest.Tokens(sub.GetSequence())[:after]...)
		silent <- name
		<-ctx.Done()
	}
}

func TestNoTokenIsLostOrRepeatedWhenWorkersDie(t *testing.T) {
	for _, after := range []int{0, 1, 7} {
		t.Run(fmt.Sprintf("after %d tokens", after), func(t *testing.T) {
			silent := make(chan string, 9)
			workers := map[string]*workertest.Worker{}
			var list []*workertest.Worker
			for i := range 3 {
				name := fmt.Sprint("w", i)
				workers[name] = workertest.Start(t, name, dying(after, silent, name))
				list = append(list, workers[name])
			}
			h := start(t, options{}, list...)
			stream := h.open(t, request("hello", 40))
			for attempt := range 3 {
				w := workers[<-silent]
				stream.read(t, after) // what was delivered must not be lost
				sub := next(t, w).GetSubmit().GetSequence()
				if int(sub.GetAttempt()) != attempt+1 || sub.GetMaxTokens() != 40 || !slices.Equal(sub.GetPrompt(), promptTokens("hello")) {
					t.Errorf("attempt %d: %v", attempt+1, sub)
				}
				whole := workertest.Tokens(&generationv1.Sequence{Prompt: sub.GetPrompt(), MaxTokens: 40})
				if !slices.Equal(sub.GetGenerated(), whole[:attempt*after]) {
					t.Errorf("attempt %d has generated %v, want %v", attempt+1, sub.GetGenerated(), whole[:attempt*after])
				}
				if attempt == 2 { // the last one comes while others are gone
					fresh := workertest.Start(t, "fresh", nil)
					h.members.set(instance(fresh))
					waitHello(t, fresh)
				}
				w.Kill()
			}
			r := stream.rest()
			if r.err != nil || r.text != expected("hello", 40) {
				t.Fatalf("text %q, %v; want %q", r.text, r.err, expected("hello", 40))
			}
			if u := r.last().GetUsage(); u.GetCompletionTokens() != 40 || u.GetPromptTokens() != 5 {
				t.Errorf("usage %v", u)
			}
			if got := r.last().GetServed().GetDecodeWorker(); got != "fresh" {
				t.Errorf("served by %q at the end, want fresh", got)
			}
		})
	}
}

func TestMigrationsAreBounded(t *testing.T) {
	silent := make(chan string, 99)
	w := workertest.Start(t, "w", dying(1, silent, "w"))
	h := start(t, options{config: func(c *processor.Config) { c.Migrations = 2 }}, w)
	stream := h.open(t, request("x", 40))
	for range 3 {
		<-silent
		stream.read(t, 1)
		w.Break()
	}
	r := stream.rest()
	if rpc.Code(r.err) != codes.Unavailable || r.text != expected("x", 40)[:3] {
		t.Errorf("text %q, %v; want the first three tokens and UNAVAILABLE", r.text, r.err)
	}
}

func TestAnswerIsCompleteThoughTheLastWordIsLost(t *testing.T) {
	silent := make(chan string, 1)
	w := workertest.Start(t, "w", dying(5, silent, "w"))
	h := start(t, options{}, w)
	stream := h.open(t, request("x", 5))
	<-silent
	stream.read(t, 5)
	w.Kill()
	if r := stream.rest(); r.err != nil || r.text != expected("x", 5) || r.last().GetFinishReason() != generationv1.FinishReason_FINISH_REASON_LENGTH {
		t.Errorf("text %q, %v, last chunk %v", r.text, r.err, r.last())
	}
}

// refusing ends every sequence with a code.
func refusing(code codes.Code) workertest.Behaviour {
	return func(_ context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{
			Reason: generationv1.FinishReason_FINISH_REASON_ERROR, Code: uint32(code), Message: "no",
		})
	}
}

func TestRefusedSequenceGoesElsewhere(t *testing.T) {
	for _, c := range []struct {
		code  codes.Code
		alone codes.Code // when no other worker is there
		again bool
	}{
		{codes.ResourceExhausted, codes.ResourceExhausted, true},
		{codes.Unavailable, codes.Unavailable, true},
		{codes.Internal, codes.Internal, false},
		{codes.InvalidArgument, codes.InvalidArgument, false},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			full := workertest.Start(t, "full", refusing(c.code))
			h := start(t, options{}, full)
			if r := h.generate(t.Context(), request("x", 5)); rpc.Code(r.err) != c.alone || c.again != (rpc.RetryAfter(r.err) > 0) {
				t.Errorf("alone: %v, want %v", r.err, c.alone)
			}
			if !c.again {
				return
			}
			free := workertest.Start(t, "free", nil)
			h.members.set(instance(full), instance(free))
			waitHello(t, free)
			for range 10 {
				if r := h.generate(t.Context(), request("x", 5)); r.err != nil || r.text != expected("x", 5) {
					t.Fatalf("text %q, %v", r.text, r.err)
				}
			}
		})
	}
}

func TestEveryWorkerIsAskedOnce(t *testing.T) {
	a, b := workertest.Start(t, "a", refusing(codes.ResourceExhausted)), workertest.Start(t, "b", refusing(codes.ResourceExhausted))
	h := start(t, options{}, a, b)
	for {
		r := h.generate(t.Context(), request("x", 5))
		if rpc.Code(r.err) != codes.ResourceExhausted {
			t.Fatalf("%v, want RESOURCE_EXHAUSTED", r.err)
		}
		fromA, fromB := len(a.Received), len(b.Received)
		if fromA != 1 && fromA != 0 || fromB != 1 && fromB != 0 {
			t.Fatalf("%d and %d submits, want at most one each", fromA, fromB)
		}
		if fromA+fromB == 2 {
			return
		}
		// The second was known and not attached yet, or its stream was.
		for len(a.Received)+len(b.Received) > 0 {
			select {
			case <-a.Received:
			case <-b.Received:
			}
		}
	}
}

func TestWorkerThatGivesASequenceUpIsLeft(t *testing.T) {
	bad := workertest.Start(t, "bad", func(_ context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{Reason: generationv1.FinishReason_FINISH_REASON_CANCELLED},
			workertest.Token(sub.GetSequence().GetPrompt(), len(sub.GetSequence().GetGenerated())))
	})
	good := workertest.Start(t, "good", nil)
	h := start(t, options{}, bad, good)
	for range 10 {
		if r := h.generate(t.Context(), request("x", 9)); r.err != nil || r.text != expected("x", 9) {
			t.Fatalf("text %q, %v", r.text, r.err)
		}
	}
}

func TestWithoutWorkers(t *testing.T) {
	h := start(t, options{config: func(c *processor.Config) { c.DispatchWait = 100 * time.Millisecond }})
	if r := h.generate(t.Context(), request("x", 5)); rpc.Code(r.err) != codes.Unavailable || rpc.Reason(r.err) != "NO_WORKER" {
		t.Errorf("no worker known: %v", r.err)
	}
	w := workertest.Start(t, "w", nil)
	w.Kill()
	h.members.set(instance(w))
	h.untilContext(t, contextTokens)
	begin := time.Now()
	if r := h.generate(t.Context(), request("x", 5)); rpc.Code(r.err) != codes.Unavailable || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("a worker known that cannot be reached: %v after %v", r.err, time.Since(begin))
	}
}

// What was begun is not given up as long as a worker may come back, known or not.
func TestABegunRequestWaitsForAnyWorker(t *testing.T) {
	silent := make(chan string, 1)
	w := workertest.Start(t, "w", dying(3, silent, "w"))
	h := start(t, options{config: func(c *processor.Config) { c.DispatchWait = 10 * time.Second }}, w)
	stream := h.open(t, request("x", 9))
	<-silent
	stream.read(t, 3)
	h.members.set()
	w.Kill()
	h.untilContext(t, 0)
	fresh := workertest.Start(t, "fresh", nil)
	h.members.set(instance(fresh))
	if r := stream.rest(); r.err != nil || r.text != expected("x", 9) {
		t.Errorf("text %q, %v", r.text, r.err)
	}
}

func TestRequestWaitsForAKnownWorker(t *testing.T) {
	h := start(t, options{config: func(c *processor.Config) { c.DispatchWait = 10 * time.Second }})
	gone := workertest.Start(t, "gone", nil)
	gone.Kill()
	h.members.set(instance(gone))
	h.untilContext(t, contextTokens)
	done := make(chan result, 1)
	go func() { done <- h.generate(t.Context(), request("x", 5)) }()
	w := workertest.Start(t, "w", nil)
	h.members.set(instance(gone), instance(w))
	if r := <-done; r.err != nil || r.text != expected("x", 5) {
		t.Errorf("text %q, %v", r.text, r.err)
	}
}

// Workers come and go, streams break, clients leave; every answer that ends well is right,
// and every request ends.
func TestAnswersAreRightWhileStreamsBreak(t *testing.T) {
	var list []*workertest.Worker
	for i := range 3 {
		list = append(list, workertest.Start(t, fmt.Sprint("w", i), nil))
	}
	h := start(t, options{config: func(c *processor.Config) { c.Migrations = 1000 }}, list...)
	stop := make(chan struct{})
	var breaker, clients sync.WaitGroup
	breaker.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				list[i%len(list)].Break()
			}
		}
	})
	var right atomic.Int64
	for c := range 8 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), 1))
			for i := range 8 {
				text, n := fmt.Sprintf("prompt %d %d", c, i), 1+random.IntN(200)
				ctx, cancel := context.WithCancel(t.Context())
				if i%4 == 3 {
					time.AfterFunc(time.Duration(random.IntN(10))*time.Millisecond, cancel)
				}
				r := h.generate(ctx, request(text, n))
				cancel()
				switch {
				case r.err == nil && r.text == expected(text, n):
					right.Add(1)
				case rpc.Code(r.err) != codes.Canceled || i%4 != 3:
					t.Errorf("%q, %d tokens: %q, %v", text, n, r.text, r.err)
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	breaker.Wait()
	if right.Load() < 8*6 {
		t.Errorf("%d right answers, want at least %d", right.Load(), 8*6)
	}
}
