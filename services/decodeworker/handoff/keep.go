package handoff

import (
	"context"
	"time"
)

// keepAtLeast is the least time for which a job is kept for one prefill worker. What saves
// less is not worth a second message.
const keepAtLeast = 5 * time.Millisecond

// keeper names the prefill worker that a job is kept for at first, and for how long: the one that
// holds most of what is not cached here, and no longer than any other would take to compute
// that. None: everybody may have it at once.
func (c *Coordinator) keeper(t *transfer) (name string, keep time.Duration) {
	hint := t.sequence.GetPrefillHint()
	saved := int(t.sequence.GetPrefillHintTokens()) - int(t.job.GetCachedTokens())
	if c.cfg.Affinity == 0 || c.deps.ComputeTime == nil || len(hint) == 0 || saved <= 0 {
		return "", 0
	}
	keep = min(c.cfg.Affinity, c.deps.ComputeTime(saved))
	if keep < keepAtLeast || !c.isOneOfSeveral(hint[0]) {
		return "", 0
	}
	return hint[0], keep
}

// isOneOfSeveral says that a prefill worker can do work for this worker, and another as well.
func (c *Coordinator) isOneOfSeveral(name string) bool {
	found, others := false, false
	for _, i := range c.deps.PrefillWorkers() {
		if usable := c.Usable(i); i.GetId() == name {
			found = usable
		} else {
			others = others || usable
		}
	}
	return found && others
}

// share queues a kept job for everybody, unless somebody has a ticket for it.
func (c *Coordinator) share(ctx context.Context, t *transfer) error {
	t.mu.Lock()
	due := t.kept && !t.held
	t.mu.Unlock()
	if !due {
		return nil
	}
	return c.publish(ctx, t)
}
