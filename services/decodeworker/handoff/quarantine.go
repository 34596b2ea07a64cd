package handoff

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// sweepEvery is how often leases are looked at when nothing else asks for it.
const sweepEvery = 250 * time.Millisecond

// warnEvery is how often the log says that a writer's blocks stay in quarantine.
const warnEvery = time.Minute

// proof is how a block left QUARANTINE.
type proof uint8

const (
	byWord  proof = iota
	byFence       // the transport's: the ticket was revoked or the writer fenced
)

// sweepLoop ends expired leases and asks for the proof of every ticket in QUARANTINE.
func (c *Coordinator) sweepLoop(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	alone := false // no prefill worker lived at the last tick
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.sweep:
		case now := <-ticker.C:
			c.expire(now)
			// A hold whose reader is gone ends by time, which nobody else tells the waiting line.
			c.deps.Worker.Scheduler.Kick()
			alone = c.lookForWorkers(alone)
		}
		c.settleReads()
		for _, q := range c.pool.Quarantined() {
			if c.beginSettling(q.Ticket) {
				asking.Go(func() {
					defer c.endSettling(q.Ticket)
					c.askForProof(ctx, q)
				})
			}
		}
		c.forgetWriters()
	}
}

// lookForWorkers gives up the jobs that nobody has taken when no prefill worker lived
// twice in a row. One that leaves finishes what it has taken.
func (c *Coordinator) lookForWorkers(before bool) (alone bool) {
	if c.asks() || slices.ContainsFunc(c.deps.PrefillWorkers(), c.Usable) {
		return false
	}
	if !before {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.transfers {
		t.mu.Lock()
		if !t.held {
			t.giveUp(CauseNoWorker, errNoWorker)
		}
		t.mu.Unlock()
	}
	return true
}

// forgetWriters forgets the writers that are gone and in no doubt. What is in doubt is asked for under the mutex:
// the tickets of a writer that is called gone are in QUARANTINE by then, and an older list would lack them.
func (c *Coordinator) forgetWriters() {
	c.mu.Lock()
	defer c.mu.Unlock()
	doubtful := c.pool.Quarantined()
	for id, w := range c.writers {
		// A fenced life is refused for good, so it is remembered for good.
		if w.gone && !w.fenced && !slices.ContainsFunc(doubtful, func(q block.Quarantined) bool { return q.Writer == id }) {
			delete(c.writers, id)
		}
	}
}

// expire moves the tickets whose lease ended into QUARANTINE.
func (c *Coordinator) expire(now time.Time) {
	for _, q := range c.pool.Expire(now) {
		c.hold(q.Transfer, false)
		c.log.Warn("the lease of a claim ended", "transfer_id", q.Transfer, "peer", q.Writer, "blocks", len(q.Blocks))
		c.mu.Lock()
		c.report.expired++
		c.mu.Unlock()
	}
}

// askForProof closes the memory to the ticket, which some transports can prove, and tells
// the writer to be quiet. Where its word is needed and does not come, it is fenced. Without any
// proof the blocks stay where they are and the next sweep asks again.
func (c *Coordinator) askForProof(ctx context.Context, q block.Quarantined) {
	c.mu.Lock()
	w, known := c.writers[q.Writer]
	c.mu.Unlock()
	if !known {
		return
	}
	if c.revoke(w.peer, q.Ticket) {
		c.passClaim(q.Transfer)
		c.settle(block.Proof{Writer: q.Writer, Ticket: q.Ticket}, byFence)
	}
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Proof)
	err := c.deps.Abort(bounded, w.address, &prefillworkerv1.AbortRequest{
		TransferId: string(q.Transfer), AttemptId: string(q.Attempt), PrefillIncarnation: w.peer.Incarnation,
		Reason: "the transfer was withdrawn or its lease ended",
	})
	cancel()
	if err != nil && (rpc.Code(err) == codes.FailedPrecondition || c.crashed(ctx, w.address)) { // it lives again, or not
		c.endByCrash(q.Transfer, w.peer, err)
	}
	if !c.inQuarantine(q.Ticket) {
		return
	}
	c.passClaim(q.Transfer)
	if err == nil {
		c.settle(block.Proof{Writer: q.Writer, Ticket: q.Ticket}, byWord)
		return
	}
	bounded, cancel = context.WithTimeout(ctx, c.cfg.Proof)
	defer cancel()
	fence := c.agent.Fence(bounded, w.peer)
	if fence != nil && c.pressed(q) {
		if retired := c.retire(ctx, q, w); retired == nil {
			fence = nil
		} else {
			fence = errors.Join(fence, retired)
		}
	}
	if fence != nil {
		if ctx.Err() == nil && c.mayWarn(q.Writer, time.Now()) {
			c.log.Warn("blocks stay in quarantine: their writer neither answers nor is proven quiet",
				"peer", q.Writer, "blocks", len(q.Blocks), "abort", err, "fence", fence)
		}
		return
	}
	c.refuse(q.Writer, w)
	c.settle(block.Proof{Writer: q.Writer, Ticket: q.Ticket}, byFence) // its other tickets have their own askers
}

// refuse gives a fenced writer no more tickets.
func (c *Coordinator) refuse(id block.WriterID, w writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.fenced = true
	w.gone = w.gone || c.writers[id].gone
	c.writers[id] = w
}

// mayWarn keeps a writer that stays frozen from filling the log.
func (c *Coordinator) mayWarn(id block.WriterID, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, known := c.writers[id]
	if !known || now.Sub(w.warned) < warnEvery {
		return false
	}
	w.warned = now
	c.writers[id] = w
	return true
}

func (c *Coordinator) inQuarantine(ticket uint64) bool {
	return slices.ContainsFunc(c.pool.Quarantined(), func(q block.Quarantined) bool { return q.Ticket == ticket })
}

// settle frees the blocks that a proof covers.
func (c *Coordinator) settle(p block.Proof, how proof) {
	tickets, _ := c.pool.Settle(p)
	if tickets == 0 {
		return
	}
	c.mu.Lock()
	if how == byWord {
		c.report.byWord += uint64(tickets)
	} else {
		c.report.byFence += uint64(tickets)
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
