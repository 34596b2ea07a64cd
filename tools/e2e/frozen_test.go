package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// TestFrozenWritersHoldMostOfAPool freezes both prefill workers while they write to most of the
// blocks there are. The prompts are computed by the decode workers all the same, which need
// these very blocks; then the frozen ones go on, and what they still write changes nothing.
func TestFrozenWritersHoldMostOfAPool(t *testing.T) {
	for _, transport := range []string{worker.Shm, worker.TCP} {
		t.Run(transport, func(t *testing.T) {
			if transport != worker.Shm {
				nightly(t)
			}
			frozenWriters(t, transport)
		})
	}
}

func frozenWriters(t *testing.T, transport string) {
	const perWorker = 3
	c := start(t, options{
		shape: slowShape(),
		decode: func(_ int, d *decodeConfig) {
			d.Transport = transport
			d.Pool.PoolTokens = perWorker*(longTokens+32) + 64
			d.Pool.QuarantineMax = d.Pool.PoolTokens // no cap: only who misses the blocks forces the proof
			d.HandOff.Lease, d.HandOff.Deadline, d.HandOff.PerToken = lease, 3*time.Second, 0
		},
		prefill: func(_ int, p *prefillConfig) {
			p.Transport, p.Jobs, p.Pool.PoolTokens = transport, perWorker, 8192
			p.Silence = patience // a frozen peer stays connected
		},
	})
	src := newSource(3, slowShape().VocabTokens)
	b := c.prepare(2*perWorker, func(int) request { return long(src, longTokens) })
	before := c.idle()
	wait := c.askAll(b)
	c.eventually("all prompts are being written", func() error {
		for i := range c.prefills {
			jobs, then := c.describePrefill(i), before.prefills[i]
			if granted := jobs.GetJobs().GetClaimsGranted() - then.GetJobs().GetClaimsGranted(); granted != perWorker {
				return fmt.Errorf("prefill-%d was granted %d claims", i, granted)
			}
			if jobs.GetTransport().GetWrittenBytes() == then.GetTransport().GetWrittenBytes() {
				return fmt.Errorf("prefill-%d has written nothing", i)
			}
		}
		return nil
	})
	for i := range c.prefills {
		c.signal(fmt.Sprintf("prefill-%d", i), syscall.SIGSTOP)
	}
	placements := c.compare(b, wait())
	if n := placements[generationv1.Placement_PLACEMENT_FALLBACK]; n < perWorker {
		t.Errorf("%d prompts were computed by the decode workers, want most: %v", n, placements)
	}
	w := difference(decodesOnly(before), c.decodeState())
	if w.expired < perWorker || w.fenced < perWorker {
		t.Errorf("%d leases ended, %d tickets left QUARANTINE without their writer's word", w.expired, w.fenced)
	}
	for i := range c.prefills {
		c.signal(fmt.Sprintf("prefill-%d", i), syscall.SIGCONT)
	}
	c.idle()
	// What is cached now is what was computed here.
	c.setPolicy(local, generationv1.Placement_PLACEMENT_LOCAL)
	c.compare(b, c.askAll(b)())
}
