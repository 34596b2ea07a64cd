package e2e

import (
	"testing"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// TestEveryStyleGivesTheAnswersOfLocalPrefill has decode workers call the prefill workers, who
// hold their blocks for reading or write them, over every transport. The push style has a test
// of its own, which counts more closely.
func TestEveryStyleGivesTheAnswersOfLocalPrefill(t *testing.T) {
	for _, style := range []worker.Style{worker.Pull, worker.Rendezvous} {
		for _, transport := range []string{worker.Shm, worker.TCP, worker.NIXL} {
			t.Run(string(style)+" over "+transport, func(t *testing.T) {
				if transport == worker.NIXL {
					overLoopback(t)
				}
				styleLikeLocal(t, style, transport)
			})
		}
	}
}

func styleLikeLocal(t *testing.T, style worker.Style, transport string) {
	shape := cputest.Tiny()
	c := start(t, options{
		shape:   shape,
		decode:  func(_ int, d *decodeConfig) { d.Transport, d.Engine.Style = transport, style },
		prefill: func(_ int, p *prefillConfig) { p.Transport, p.Engine.Style, p.Jobs = transport, style, 8 },
	})
	src := newSource(8, shape.VocabTokens)
	b := c.prepare(round, func(int) request { return src.next() })
	c.linksKnown(map[string]string{worker.Shm: "same host", worker.TCP: "same host", worker.NIXL: "unknown"}[transport])
	before := c.idle()
	got := c.all(b.requests, 6)
	placements := c.compare(b, got)
	if n := placements[generationv1.Placement_PLACEMENT_REMOTE]; n != len(got) {
		t.Errorf("placed %v, want all %d remotely", placements, len(got))
	}
	checkPlacements(t, got)
	w := difference(before, c.idle())
	if w.decodePrompt != 0 || w.fallback != 0 || w.expired != 0 {
		t.Errorf("%d prompt tokens were computed by decode workers, %d fallbacks, %d tickets expired", w.decodePrompt, w.fallback, w.expired)
	}
	moved, want := w.writtenBytes, w.received*w.rowBytes
	if style == worker.Pull {
		moved = 0
		for _, d := range c.state().decodes {
			moved += d.GetTransport().GetReadBytes()
		}
		for _, d := range before.decodes {
			moved -= d.GetTransport().GetReadBytes()
		}
	}
	if moved != want || want == 0 {
		t.Errorf("%d bytes moved for %d rows, want %d", moved, w.received, want)
	}
}

// TestAHoldThatEndsWhileItIsRead has prefill workers that hold nothing for long enough. The decode
// workers end their reading with the hold, and decode from nothing that they have read.
func TestAHoldThatEndsWhileItIsRead(t *testing.T) {
	for _, transport := range []string{worker.Shm, worker.TCP} {
		t.Run(transport, func(t *testing.T) { holdEnds(t, transport) })
	}
}

func holdEnds(t *testing.T, transport string) {
	const reason = "fallback_read"
	shape := cputest.Tiny()
	c := start(t, options{
		shape:  shape,
		decode: func(_ int, d *decodeConfig) { d.Transport, d.Engine.Style = transport, worker.Pull },
		prefill: func(_ int, p *prefillConfig) {
			p.Transport, p.Engine.Style, p.Hold, p.HoldPerToken = transport, worker.Pull, 1, 0
		},
	})
	src := newSource(9, shape.VocabTokens)
	var b batch
	for range 12 {
		b.requests = append(b.requests, src.next())
	}
	b.want = c.references(b.requests)
	c.setPolicy(remote, generationv1.Placement_PLACEMENT_FALLBACK)
	before := c.idle()
	n := uint64(c.compare(b, c.askAll(b)())[generationv1.Placement_PLACEMENT_FALLBACK]) // a short prompt may be read in time
	if n == 0 {
		t.Error("no prompt was computed by the decode workers after all")
	}
	fell := uint64(0)
	for i, d := range c.idle().decodes {
		fell += d.GetHandOff().GetReasons()[reason] - before.decodes[i].GetHandOff().GetReasons()[reason]
	}
	if fell != n {
		t.Errorf("%d of %d fallbacks by %s", fell, n, reason)
	}
}
