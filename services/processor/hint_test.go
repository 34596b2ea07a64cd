package processor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

// A prompt's prefix is hinted to lie where an earlier one was computed, while that worker lives.
func TestAHintNamesWhoComputedThePrefix(t *testing.T) {
	hints, tokens := make(chan []string, 100), make(chan uint32, 100)
	w := workertest.Start(t, "w", func(_ context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		hints <- sub.GetSequence().GetPrefillHint()
		tokens <- sub.GetSequence().GetPrefillHintTokens()
		answer := workertest.Tokens(sub.GetSequence())
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{
			Reason:    generationv1.FinishReason_FINISH_REASON_LENGTH,
			Placement: generationv1.Placement_PLACEMENT_REMOTE, PrefillWorker: "pf",
		}, answer...)
	})
	h := start(t, options{}, w)
	prefill := &instancev1.Instance{
		Id: "pf", Incarnation: "1", Role: instancev1.Role_ROLE_PREFILL_WORKER,
		Model: &instancev1.ModelCard{Name: modelName, BlockTokens: 16, PoolBlocks: 64},
	}
	long := strings.Repeat("x", 40)
	asked := func() []string {
		if r := h.generate(t.Context(), request(long, 3)); r.err != nil {
			t.Fatal(r.err)
		}
		names, held := <-hints, <-tokens
		if (held >= 32) != (len(names) > 0) { // two of the prompt's blocks
			t.Errorf("the hint is %v with %d tokens", names, held)
		}
		return names
	}
	until := func(want ...string) {
		t.Helper()
		deadline := time.Now().Add(10 * time.Second)
		for got := asked(); !slices.Equal(got, want); got = asked() {
			if time.Now().After(deadline) {
				t.Fatalf("the hint is %v, want %v", got, want)
			}
		}
	}
	until()
	h.prefills.set(prefill)
	until("pf")
	h.prefills.set()
	until()
}
