package handoff

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// sweepEvery is how often leases are looked at when nothing else asks for it.
const sweepEvery = 250 * time.Millisecond

// proof is how a block left QUARANTINE.
type proof uint8

const (
	byWord proof = iota
	byFence
)

// sweepLoop ends expired leases and asks for the proof of every ticket in QUARANTINE.
func (c *Coordinator) sweepLoop(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.sweep:
		case now := <-ticker.C:
			c.expire(now)
		}
		for _, q := range c.pool.Quarantined() {
			if c.beginSettling(q.Ticket) {
				asking.Go(func() {
					defer c.endSettling(q.Ticket)
					c.askForProof(ctx, q)
				})
			}
		}
	}
}

// expire moves the tickets whose lease ended into QUARANTINE.
func (c *Coordinator) expire(now time.Time) {
	for _, q := range c.pool.Expire(now) {
		c.log.Warn("the lease of a claim ended", "transfer_id", q.Transfer, "peer", q.Writer, "blocks", len(q.Blocks))
		c.mu.Lock()
		c.report.expired++
		c.mu.Unlock()
	}
}

// askForProof asks the writer for its word, and fences it if it does not answer. Without
// either, the blocks stay where they are and the next sweep asks again.
func (c *Coordinator) askForProof(ctx context.Context, q block.Quarantined) {
	c.mu.Lock()
	w, known := c.writers[q.Writer]
	c.mu.Unlock()
	if !known {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Proof)
	err := c.deps.Abort(bounded, w.address, &prefillworkerv1.AbortRequest{
		TransferId: string(q.Transfer), AttemptId: string(q.Attempt), PrefillIncarnation: w.peer.Incarnation,
		Reason: "the transfer was withdrawn or its lease ended",
	})
	cancel()
	if err == nil {
		c.settle(block.Proof{Writer: q.Writer, Ticket: q.Ticket}, byWord)
		return
	}
	bounded, cancel = context.WithTimeout(ctx, c.cfg.Proof)
	defer cancel()
	if fence := c.agent.Fence(bounded, w.peer); fence != nil {
		if ctx.Err() == nil {
			c.log.Warn("blocks stay in quarantine: their writer neither answers nor is proven quiet",
				"peer", q.Writer, "blocks", len(q.Blocks), "abort", err, "fence", fence)
		}
		return
	}
	c.settle(block.Proof{Writer: q.Writer, Ticket: q.Ticket}, byFence) // its other tickets have their own askers
}

// settle frees the blocks that a proof covers.
func (c *Coordinator) settle(p block.Proof, how proof) {
	if c.pool.Settle(p) == 0 {
		return
	}
	c.mu.Lock()
	if how == byWord {
		c.report.byWord++
	} else {
		c.report.byFence++
	}
	c.mu.Unlock()
	c.wakeRebook()
	c.deps.Worker.Scheduler.Kick()
}

// wakeRebook wakes those who wait for blocks out of QUARANTINE.
func (c *Coordinator) wakeRebook() {
	c.mu.Lock()
	close(c.settled)
	c.settled = make(chan struct{})
	c.mu.Unlock()
}

func (c *Coordinator) beginSettling(ticket uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settling[ticket] {
		return false
	}
	c.settling[ticket] = true
	return true
}

func (c *Coordinator) endSettling(ticket uint64) {
	c.mu.Lock()
	delete(c.settling, ticket)
	c.mu.Unlock()
}
