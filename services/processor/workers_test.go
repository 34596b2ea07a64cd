package processor_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/rpc/local"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

// settles generates until n answers in a row come from one worker.
func settles(t *testing.T, h *harness, worker string, n int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for row := 0; row < n; {
		r := h.generate(t.Context(), request("x", 3))
		if r.err != nil {
			t.Fatal(r.err)
		}
		if r.last().GetServed().GetDecodeWorker() == worker {
			row++
		} else if row = 0; time.Now().After(deadline) {
			t.Fatalf("answers still come from others than %s", worker)
		}
	}
}

func TestLoadReportsCount(t *testing.T) {
	busy, idle := workertest.Start(t, "busy", nil), workertest.Start(t, "idle", nil)
	h := start(t, options{}, busy, idle)
	busy.Report(&decodeworkerv1.Load{Report: &instancev1.LoadReport{ActiveTokens: 1 << 20}})
	settles(t, h, "idle", 20)
	busy.Report(&decodeworkerv1.Load{})
	idle.Report(&decodeworkerv1.Load{Report: &instancev1.LoadReport{WaitingPromptTokens: 1 << 20}})
	settles(t, h, "busy", 20)
}

func TestDrainingWorkerGetsNothingNew(t *testing.T) {
	leaving, staying := workertest.Start(t, "leaving", nil), workertest.Start(t, "staying", nil)
	h := start(t, options{}, leaving, staying)
	in := instance(leaving)
	in.Draining = true
	h.members.set(in, instance(staying))
	settles(t, h, "staying", 20)
}

// pausing sends one token, and the rest when it is told to go on.
func pausing(goOn <-chan struct{}) workertest.Behaviour {
	return func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		seq := sub.GetSequence()
		tokens := workertest.Tokens(seq)
		s.Batch(sub.GetSequenceId(), nil, tokens[0])
		<-goOn
		workertest.Answer(ctx, s, &decodeworkerv1.Submit{SequenceId: sub.GetSequenceId(), Sequence: &generationv1.Sequence{
			Prompt: seq.GetPrompt(), Generated: tokens[:1], MaxTokens: seq.GetMaxTokens(),
		}})
	}
}

// A worker may be lost from sight and come back in the same life, before or after what ran
// there has ended.
func TestWorkerThatLeftFinishesWhatRunsAndMayComeBack(t *testing.T) {
	for _, backFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("back first: %v", backFirst), func(t *testing.T) {
			goOn := make(chan struct{})
			w := workertest.Start(t, "w", pausing(goOn))
			h := start(t, options{}, w)
			stream := h.open(t, request("x", 9))
			stream.read(t, 1)
			h.members.set()
			h.untilContext(t, 0)
			if backFirst {
				h.members.set(instance(w))
				h.untilContext(t, contextTokens)
			}
			close(goOn)
			if r := stream.rest(); r.err != nil || r.text != expected("x", 9) {
				t.Errorf("text %q, %v", r.text, r.err)
			}
			h.members.set(instance(w))
			h.untilContext(t, contextTokens)
			settles(t, h, "w", 3)
		})
	}
}

func TestAnswersCountAsCachedInTheNextTurn(t *testing.T) {
	reader := metric.NewManualReader()
	h := start(t, options{meter: metric.NewMeterProvider(metric.WithReader(reader))}, workertest.Start(t, "w", nil))
	const first = "a prompt of 34 tokens, one a byte."
	r := h.generate(t.Context(), request(first, 50))
	if r.err != nil {
		t.Fatal(r.err)
	}
	if r := h.generate(t.Context(), request(first+r.text+" and on", 9)); r.err != nil {
		t.Fatal(r.err)
	}
	// 34 + 49 tokens are resident after the first turn: 5 blocks of 16.
	if got := sums(t, reader)["switchyard.processor.expected.cached.tokens"]; got != 80 {
		t.Errorf("%d tokens are taken to be cached, want 80", got)
	}
}

func TestRunLetsRequestsOfTheSameProcessFinish(t *testing.T) {
	goOn := make(chan struct{})
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		<-goOn
		workertest.Answer(ctx, s, sub)
	})
	h := start(t, options{}, w)
	conn := local.New(local.Options{Stream: rpc.StreamInterceptor(slog.New(slog.DiscardHandler))})
	defer conn.Close()
	processorv1.RegisterProcessorServer(conn, h.processor)
	h.ProcessorClient = processorv1.NewProcessorClient(conn)
	done := make(chan result, 1)
	go func() { done <- h.generate(t.Context(), request("x", 9)) }()
	next(t, w)
	stopped := make(chan struct{})
	go func() { h.stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Error("Run ended with a request in work")
	case <-time.After(100 * time.Millisecond): // long enough to be wrong
	}
	close(goOn)
	if r := <-done; r.err != nil || r.text != expected("x", 9) {
		t.Errorf("text %q, %v", r.text, r.err)
	}
	<-stopped
}
