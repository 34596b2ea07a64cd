//go:build linux

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest/cable"
	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// TestTheNetworkBetweenTheHostsIsCut has the prefill workers on a host of their own and takes
// the cable out while they write, once for a while and once for good.
func TestTheNetworkBetweenTheHostsIsCut(t *testing.T) {
	k := cable.Plug(t)
	k.Limit(200)
	c := start(t, options{
		shape: slowShape(), cable: k,
		decode: func(_ int, d *decodeConfig) {
			d.Transport, d.Silence, d.Pool.PoolTokens = worker.TCP, time.Second, 16384
			d.HandOff.Lease, d.HandOff.Deadline, d.HandOff.PerToken = lease, 5*time.Second, 0
		},
		prefill: func(_ int, p *prefillConfig) { p.Transport, p.Silence, p.Drain = worker.TCP, time.Second, time.Second },
	})
	src := newSource(5, slowShape().VocabTokens)
	t.Run("for 10 seconds", func(t *testing.T) { nightly(t); c.with(t).cut(src, 10*time.Second) })
	t.Run("for good", func(t *testing.T) { c.with(t).cut(src, 0) })
	k.Join() // so that all can leave
}

// cut takes the cable out under the writes of some prompts, for a while or for good.
func (c *cluster) cut(src *source, away time.Duration) {
	b := c.prepare(6, func(int) request { return long(src, longTokens) })
	before := c.idle()
	wait := c.askAll(b)
	c.eventually("the prompts are being written", func() error {
		for i := range c.prefills {
			if now := c.describePrefill(i).GetTransport().GetWrittenBytes(); now == before.prefills[i].GetTransport().GetWrittenBytes() {
				return fmt.Errorf("prefill-%d has written nothing", i)
			}
		}
		return nil
	})
	c.cable.Cut()
	if away > 0 {
		again := time.AfterFunc(away, c.cable.Join)
		defer again.Stop()
	}
	placements := c.compare(b, wait())
	c.t.Logf("%v", placements)
	if placements[generationv1.Placement_PLACEMENT_FALLBACK] == 0 {
		c.t.Error("no prompt was computed by a decode worker: the cut came too late")
	}
	if away == 0 {
		c.prefills = nil // nobody reaches them any more
		c.idle()
		return
	}
	c.eventually("the prefill workers can be reached", func() error {
		for _, p := range c.prefills {
			ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
			_, err := p.Describe(ctx, &prefillworkerv1.DescribeRequest{})
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	})
	c.idle()
	// The hosts work together again.
	more := c.prepare(2, func(int) request { return long(src, longTokens) })
	if n := c.compare(more, c.askAll(more)())[generationv1.Placement_PLACEMENT_REMOTE]; n != 2 {
		c.t.Errorf("%d of 2 prompts were computed remotely after the cut", n)
	}
}
