package handoff

import (
	"context"
	"errors"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// poolRegion is the region of the worker's pool.
const poolRegion nixl.RegionID = 0

// pressed says whether the blocks of a living writer in QUARANTINE are missed: it has more
// there than it may, or a sequence waits for blocks.
func (c *Coordinator) pressed(q block.Quarantined) bool {
	return q.OverCap || c.starving.Load() > 0 || c.deps.Worker.Scheduler.Report().Waiting > 0
}

// retire moves the pool's memory out of the reach of a writer that neither answers nor can
// be fenced, and frees its blocks. Tickets of others whose blocks move along are taken back and
// their jobs queued again.
func (c *Coordinator) retire(ctx context.Context, q block.Quarantined, w writer) error {
	r, can := c.agent.(nixl.Retirer)
	if !can {
		return errors.ErrUnsupported
	}
	lost, err := c.retireFrom(ctx, r, q, w)
	c.requeue(ctx, lost)
	return err
}

func (c *Coordinator) retireFrom(ctx context.Context, r nixl.Retirer, q block.Quarantined, w writer) ([]block.Quarantined, error) {
	c.moving.Lock()
	defer c.moving.Unlock()
	if !c.inQuarantine(q.Ticket) { // another of its tickets was asked for
		return nil, nil
	}
	id := q.Writer
	lost := c.pool.AbortWriter(id)
	var blocks []block.ID
	for _, q := range c.pool.Quarantined() {
		if q.Writer == id {
			for _, ref := range q.Blocks {
				blocks = append(blocks, ref.ID)
			}
		}
	}
	others, err := c.move(ctx, r, w.peer, blocks)
	if err == nil {
		c.refuse(id, w) // before its blocks and others' jobs are there again: it may ask at once
		c.settle(block.Proof{Writer: id}, byFence)
	}
	return append(lost, others...), err
}

// move has the memory moved while no ticket is given, no note committed and no step made:
// c.moving is locked. It answers the tickets of others that were taken back.
func (c *Coordinator) move(ctx context.Context, r nixl.Retirer, peer nixl.PeerID, blocks []block.ID) (others []block.Quarantined, err error) {
	var moved map[block.ID]bool
	err = r.Retire(ctx, peer, poolRegion, blocks, func(ctx context.Context, moving []block.ID, replace func(func(block.ID) bool) error) error {
		moved = make(map[block.ID]bool, len(moving))
		for _, b := range moving {
			moved[b] = true
		}
		var replaced error
		err := c.deps.Worker.Scheduler.Between(ctx, func() {
			others = c.pool.AbortOver(moving)
			replaced = replace(c.pool.Readable)
		})
		return errors.Join(err, replaced)
	})
	if err != nil {
		return others, err
	}
	for _, q := range others {
		if covered(q.Blocks, moved) { // else its writer is asked for its word about the rest
			c.settle(block.Proof{Writer: q.Writer, Ticket: q.Ticket}, byFence)
		}
	}
	return others, nil
}

func covered(refs []block.Ref, moved map[block.ID]bool) bool {
	for _, r := range refs {
		if !moved[r.ID] {
			return false
		}
	}
	return true
}

// requeue publishes the jobs of tickets that were taken back.
func (c *Coordinator) requeue(ctx context.Context, lost []block.Quarantined) {
	for _, q := range lost {
		c.hold(q.Transfer, false)
		if t := c.find(q.Transfer); t != nil && !c.asks() {
			if err := c.publish(ctx, t); err != nil {
				c.log.Warn("a lost job could not be queued again", "transfer_id", t.id, "error", err)
			}
		}
	}
}
