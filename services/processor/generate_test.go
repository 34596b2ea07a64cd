package processor_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

func TestAnswerIsStreamedTokenByToken(t *testing.T) {
	w := workertest.Start(t, "w", nil)
	h := start(t, options{}, w)
	r := h.generate(t.Context(), request("hello", 20))
	if r.err != nil || r.text != expected("hello", 20) {
		t.Fatalf("text %q, %v; want %q", r.text, r.err, expected("hello", 20))
	}
	if len(r.chunks) != 20 {
		t.Errorf("%d chunks, want one for each of 20 tokens", len(r.chunks))
	}
	last := r.last()
	if last.GetServed().GetTimeToFirstToken().AsDuration() <= 0 {
		t.Error("no time to the first token")
	}
	last.GetServed().TimeToFirstToken = nil
	want := &generationv1.Chunk{
		Id: "r-hello", Model: modelName, Created: r.chunks[0].GetCreated(), Text: r.text[19:],
		FinishReason: generationv1.FinishReason_FINISH_REASON_LENGTH,
		Usage:        &generationv1.Usage{PromptTokens: 5, CompletionTokens: 20, CachedTokens: 1},
		Served:       &generationv1.Served{DecodeWorker: "w", Placement: generationv1.Placement_PLACEMENT_LOCAL},
	}
	if diff := cmp.Diff(want, last, protocmp.Transform()); diff != "" {
		t.Errorf("last chunk (-want +got):\n%s", diff)
	}
}

func TestWorkerGetsTheWholeSequence(t *testing.T) {
	w := workertest.Start(t, "w", nil)
	h := start(t, options{}, w)
	req := request("hi", 3)
	req.CacheSalt = "tenant"
	req.Sampling = &generationv1.Sampling{Temperature: ptr(float32(0.5)), TopK: ptr(uint32(7)), Seed: ptr(uint64(99))}
	if r := h.generate(t.Context(), req); r.err != nil {
		t.Fatal(r.err)
	}
	want := &decodeworkerv1.Submit{Booking: 1, SequenceId: 1, Sequence: &generationv1.Sequence{
		RequestId: "r-hi", Attempt: 1, Prompt: promptTokens("hi"), MaxTokens: 3,
		StopTokens: []uint32{tokenizertest.EndOfText, tokenizertest.TurnEnd}, CacheSalt: "tenant",
		Sampling: &generationv1.Sampling{Temperature: ptr(float32(0.5)), TopP: ptr(float32(1)), TopK: ptr(uint32(7)), Seed: ptr(uint64(99))},
	}}
	if diff := cmp.Diff(want, next(t, w).GetSubmit(), protocmp.Transform()); diff != "" {
		t.Errorf("submit (-want +got):\n%s", diff)
	}
}

func TestStopTextEndsTheAnswerAndTheWorker(t *testing.T) {
	whole := expected("hello", 100)
	stopped := make(chan struct{})
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		tokens := workertest.Tokens(sub.GetSequence())
		s.Batch(sub.GetSequenceId(), nil, tokens[:50]...)
		<-ctx.Done()
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{
			Reason: generationv1.FinishReason_FINISH_REASON_CANCELLED, CachedTokens: 2, Placement: generationv1.Placement_PLACEMENT_REMOTE, PrefillWorker: "pf",
		})
		close(stopped)
	})
	h := start(t, options{}, w)
	r := h.generate(t.Context(), request("hello", 100, whole[10:14]))
	<-stopped
	if r.err != nil || r.text != whole[:10] {
		t.Fatalf("text %q, %v; want %q", r.text, r.err, whole[:10])
	}
	last := r.last()
	if last.GetFinishReason() != generationv1.FinishReason_FINISH_REASON_STOP || last.GetUsage().GetCompletionTokens() != 14 || last.GetUsage().GetCachedTokens() != 2 {
		t.Errorf("last chunk %v, want STOP after 14 tokens with 2 cached", last)
	}
	served := last.GetServed()
	served.TimeToFirstToken = nil
	if diff := cmp.Diff(&generationv1.Served{DecodeWorker: "w", Placement: generationv1.Placement_PLACEMENT_REMOTE, PrefillWorker: "pf"}, served, protocmp.Transform()); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
}

func TestEndTokenYieldsNoTextAndCounts(t *testing.T) {
	w := workertest.Start(t, "w", func(_ context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{Reason: generationv1.FinishReason_FINISH_REASON_STOP},
			tokenizertest.FirstByte+'a', tokenizertest.FirstByte+0xc3, tokenizertest.TurnEnd)
	})
	r := start(t, options{}, w).generate(t.Context(), request("x", 9))
	if r.err != nil || r.text != "a\ufffd" || r.last().GetUsage().GetCompletionTokens() != 3 ||
		r.last().GetFinishReason() != generationv1.FinishReason_FINISH_REASON_STOP {
		t.Errorf("text %q, %v, last chunk %v", r.text, r.err, r.last())
	}
}

func TestFirstTokenIsToldEvenWithoutText(t *testing.T) {
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), nil, tokenizertest.FirstByte+0xc3)
		<-ctx.Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := start(t, options{}, w).Generate(ctx, &processorv1.GenerateRequest{Request: request("x", 9)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil || len(m.GetChunks()) != 1 || m.GetChunks()[0].GetText() != "" || m.GetChunks()[0].GetId() == "" {
		t.Errorf("first chunk %v, %v; want an empty one", m, err)
	}
}

func TestCancelReachesTheWorker(t *testing.T) {
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), nil, tokenizertest.FirstByte+'a')
		<-ctx.Done()
	})
	h := start(t, options{}, w)
	for _, c := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		want codes.Code
	}{
		{"client gone", func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, codes.Canceled},
		{"deadline", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 100*time.Millisecond)
		}, codes.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := c.ctx()
			defer cancel()
			stream, err := h.Generate(ctx, &processorv1.GenerateRequest{Request: request("x", 9)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			if c.want == codes.Canceled {
				cancel()
			}
			sub := next(t, w).GetSubmit()
			if _, ok := ctx.Deadline(); ok != (sub.GetSequence().GetDeadline() != nil) {
				t.Errorf("deadline of the sequence is %v", sub.GetSequence().GetDeadline())
			}
			if got := next(t, w).GetCancel(); got.GetSequenceId() != sub.GetSequenceId() {
				t.Errorf("worker received the cancel of %d, want of %d", got.GetSequenceId(), sub.GetSequenceId())
			}
			if _, err := stream.Recv(); rpc.Code(err) != c.want {
				t.Errorf("the stream ended with %v, want %v", err, c.want)
			}
		})
	}
}

func TestStuckClientStallsNobody(t *testing.T) {
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		workertest.Answer(ctx, s, sub)
	})
	h := start(t, options{}, w)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 4 { // they never read
		if _, err := h.Generate(ctx, &processorv1.GenerateRequest{Request: request("stuck", 200)}); err != nil {
			t.Fatal(err)
		}
	}
	if r := h.generate(t.Context(), request("free", 200)); r.err != nil || r.text != expected("free", 200) {
		t.Errorf("text %q, %v", r.text, r.err)
	}
}

func TestRequestsOverTheLimitAreRefused(t *testing.T) {
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), nil, tokenizertest.FirstByte+'a')
		<-ctx.Done()
	})
	h := start(t, options{config: func(c *processor.Config) { c.MaxRequests = 1 }}, w)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := h.Generate(ctx, &processorv1.GenerateRequest{Request: request("a", 9)})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := h.generate(t.Context(), request("b", 9)); rpc.Code(r.err) != codes.ResourceExhausted || rpc.RetryAfter(r.err) <= 0 {
		t.Errorf("second request: %v, want RESOURCE_EXHAUSTED with a time", r.err)
	}
}

func TestModelsOfLiveWorkers(t *testing.T) {
	h := start(t, options{})
	if m, err := h.Models(t.Context(), &processorv1.ModelsRequest{}); err != nil || len(m.GetModels()) != 0 {
		t.Errorf("models without workers: %v, %v", m, err)
	}
	w := workertest.Start(t, "w", nil)
	h.members.set(instance(w))
	if err := h.processor.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []*processorv1.Model{{Name: modelName, ContextTokens: contextTokens, CreatedUnix: 1000, ChatTemplate: &processorv1.ChatTemplate{
		SystemRole: true, GenerationPrompt: true,
	}}}
	m, err := h.Models(t.Context(), &processorv1.ModelsRequest{})
	if diff := cmp.Diff(want, m.GetModels(), protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("models (-want +got):\n%s%v", diff, err)
	}
}

func TestRunLetsRequestsFinish(t *testing.T) {
	goOn := make(chan struct{})
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		tokens := workertest.Tokens(sub.GetSequence())
		s.Batch(sub.GetSequenceId(), nil, tokens[0])
		<-goOn
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{Reason: generationv1.FinishReason_FINISH_REASON_LENGTH}, tokens[1:]...)
	})
	h := start(t, options{}, w)
	stream, err := h.Generate(t.Context(), &processorv1.GenerateRequest{Request: request("x", 5)})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { h.stop(); close(stopped) }()
	close(goOn)
	for finished := false; !finished; {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("the request did not finish: %v", err)
		}
		chunks := m.GetChunks()
		finished = chunks[len(chunks)-1].GetFinishReason() != generationv1.FinishReason_FINISH_REASON_UNSPECIFIED
	}
	<-stopped
}
