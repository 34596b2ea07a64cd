package kvevent

import (
	"context"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// Log is a worker's own record of what changes (block.Pool).
type Log interface {
	// Changed receives a value when there is a change to drain after there was none.
	Changed() <-chan struct{}
	// Changes drains: it appends to dst and tells the number of the first, and how many
	// before it were dropped.
	Changes(dst []block.Change) (all []block.Change, first, lost uint64)
	// Snapshot is all there is, and the number of the last change it covers.
	Snapshot() block.Snapshot
}

// Output is one form in which changes are published.
type Output interface {
	// Publish takes changes numbered from first on; lost says how many are missing before
	// them. It must not keep the slice, and does not wait for anybody.
	Publish(first, lost uint64, changes []block.Change)
}

// keepChanges is the room that is kept from one batch to the next.
const keepChanges = 1 << 12

// Publisher drains a worker's log into its outputs. It alone waits when these are slow: the log
// then drops its oldest changes.
type Publisher struct {
	log      Log
	interval time.Duration
	outputs  []Output
}

// NewPublisher returns a publisher that gathers changes for an interval before it publishes them.
func NewPublisher(log Log, interval time.Duration, outputs ...Output) *Publisher {
	return &Publisher{log, interval, outputs}
}

// Run publishes until ctx ends. It costs nothing while nothing changes.
func (p *Publisher) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	var changes []block.Change
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.log.Changed():
		}
		timer.Reset(p.interval)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if cap(changes) > keepChanges {
			changes = nil
		}
		var first, lost uint64
		changes, first, lost = p.log.Changes(changes[:0])
		for _, o := range p.outputs {
			o.Publish(first, lost, changes)
		}
		clear(changes) // the contents are not ours to keep
	}
}
