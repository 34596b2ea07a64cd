package prefillworker

import (
	"context"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// lingerEvery is how often attempts are looked at that ended in doubt, and what readers may read.
const lingerEvery = 250 * time.Millisecond

// lingering is an attempt that is over, of which some transfer may still move bytes: its
// transport could not tell its end. No word is given for it until it has settled.
type lingering struct {
	a         *attempt
	transfers []nixl.Transfer
}

func (p *PrefillWorker) linger(a *attempt, transfers []nixl.Transfer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lingering = append(p.lingering, lingering{a, transfers})
}

// lingerLoop forgets the attempts in doubt once they have settled, and ends the holds and the
// leaves to probe that are over.
func (p *PrefillWorker) lingerLoop(ctx context.Context) error {
	ticker := time.NewTicker(lingerEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			p.sweepCalls(now)
			p.endProbes(func(_ nixl.PeerID, l probeLeave) bool { return !l.expiry.After(now) })
		}
		p.mu.Lock()
		doubtful := p.lingering
		p.lingering = nil
		p.mu.Unlock()
		for _, l := range doubtful {
			if l.transfers = unsettled(l.transfers); len(l.transfers) > 0 {
				p.linger(l.a, l.transfers)
				continue
			}
			l.a.stopWriting()
			p.finish(l.a)
		}
	}
}

// unsettled releases the transfers that have settled and keeps the others.
func unsettled(transfers []nixl.Transfer) (kept []nixl.Transfer) {
	for _, t := range transfers {
		if t.Release() != nil {
			kept = append(kept, t)
		}
	}
	return kept
}
