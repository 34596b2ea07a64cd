package handoff

import (
	"context"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Crash is the error of a transfer whose prefill worker died while it had it, perhaps of it.
// It is given to no other worker from here.
type Crash struct {
	Peer nixl.PeerID
	Err  error // how the death showed
}

func (c *Crash) Error() string { return fmt.Sprintf("prefill worker %s died: %v", c.Peer, c.Err) }
func (c *Crash) Unwrap() error { return c.Err }

// crashed says whether the process of the prefill worker at an address has ended. One that is frozen, has left
// or cannot be reached did not crash.
func (c *Coordinator) crashed(ctx context.Context, address string) bool {
	return c.deps.Died != nil && c.deps.Died(ctx, address)
}

// endByCrash ends a transfer that a prefill worker had when it died.
func (c *Coordinator) endByCrash(id block.TransferID, peer nixl.PeerID, err error) {
	if t := c.find(id); t != nil {
		t.giveUp(CauseCrash, &Crash{Peer: peer, Err: err})
	}
}

// bury deals with the tickets that a lost writer held: their transfers end if it has
// crashed, else their jobs are queued again.
func (c *Coordinator) bury(ctx context.Context, peer nixl.PeerID, address string, lost []block.Quarantined) {
	if len(lost) == 0 || !c.crashed(ctx, address) {
		c.requeue(ctx, lost)
		return
	}
	for _, q := range lost {
		c.endByCrash(q.Transfer, peer, nixl.ErrGone) // first, so that it is not shared again
		c.hold(q.Transfer, false)
	}
}
