package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// TestAFullQueueAndASmallPool sends more prompts than the queue takes and than the decode
// workers have blocks for: some are computed locally, some wait for their turn, none fails.
func TestAFullQueueAndASmallPool(t *testing.T) {
	c := start(t, options{
		shape: slowShape(),
		decode: func(_ int, d *decodeConfig) {
			d.Queue.Jobs = 2
			d.Pool.PoolTokens = 3 * (longTokens + 32)
		},
		prefill: func(_ int, p *prefillConfig) { p.Queue.Jobs, p.Jobs = 2, 1 },
	})
	src := newSource(6, slowShape().VocabTokens)
	b := c.prepare(16, func(int) request { return long(src, longTokens) })
	c.idle()
	placements := c.compare(b, c.askAll(b)())
	t.Logf("%v", placements)
	if placements[generationv1.Placement_PLACEMENT_REMOTE] == 0 || placements[generationv1.Placement_PLACEMENT_FALLBACK] == 0 {
		t.Errorf("placed %v, want some of both", placements)
	}
	after := c.idle()
	full := uint64(0)
	for _, d := range after.decodes {
		full += d.GetHandOff().GetReasons()["fallback_publish"]
	}
	if got := uint64(placements[generationv1.Placement_PLACEMENT_FALLBACK]); full != got {
		t.Errorf("%d fallbacks are counted for the queue, the answers tell of %d", full, got)
	}
}

// TestWorkersOfAnotherKVFormatAreLeftAlone has prefill workers whose weights differ: their blocks
// would mean something else.
func TestWorkersOfAnotherKVFormatAreLeftAlone(t *testing.T) {
	shape := cputest.Tiny()
	other := filepath.Join(t.TempDir(), "other.gguf")
	file, err := os.Create(other)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := cputest.Write(file, shape, 2, vocabulary(shape)...); err != nil { // another seed
		t.Fatal(err)
	}
	c := start(t, options{shape: shape, prefill: func(_ int, p *prefillConfig) { p.Engine.Model = other }})
	src := newSource(7, shape.VocabTokens)
	var b batch
	for range 4 {
		b.requests = append(b.requests, src.next())
	}
	b.want = c.references(b.requests)
	c.setPolicy(remote, generationv1.Placement_PLACEMENT_LOCAL)
	if n := c.compare(b, c.askAll(b)())[generationv1.Placement_PLACEMENT_LOCAL]; n != len(b.requests) {
		t.Errorf("%d of %d prompts were computed locally", n, len(b.requests))
	}
	said := uint64(0)
	for _, d := range c.idle().decodes {
		said += d.GetHandOff().GetReasons()["no_prefill_worker"]
	}
	if said < uint64(len(b.requests)) {
		t.Errorf("%d decisions say that no prefill worker can do it, want %d", said, len(b.requests))
	}
}
