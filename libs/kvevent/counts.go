package kvevent

import (
	"cmp"
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Counts is what a follower has seen since its start, over all sources.
type Counts struct {
	Batches uint64
	// Events were passed to the sink, those out of snapshots not counted.
	Events uint64
	// Duplicates are batches that held nothing new.
	Duplicates uint64
	// Gaps is how often events were missing of a source that was followed.
	Gaps      uint64
	Snapshots uint64
	// SnapshotFailures were refused, cut, wrong or older than what was missing.
	SnapshotFailures uint64
	// Malformed batches could not be read, were of another model or block size, or told of events that
	// the worker had not come to yet.
	Malformed uint64
	// Late batches and reports were of a life that had ended.
	Late uint64
	// Overflow events were dropped because a source's snapshot took too long.
	Overflow uint64
	// Refused batches and reports were of more sources than are followed, or of unknown ones.
	Refused uint64
	// NATSDropped messages came faster than they were taken.
	NATSDropped uint64
}

// SourceCounts is what was seen of one source, as in Counts.
type SourceCounts struct {
	Duplicates, Gaps, Snapshots uint64
}

// SourceStats is how a source stands.
type SourceStats struct {
	Source
	SourceCounts
	// Complete says that no event is known to be missing.
	Complete bool
	// Sequence is the number of the last event that the sink has, Reported what the worker told.
	Sequence, Reported uint64
}

// Counts tells what was seen so far.
func (f *Follower) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	if f.dropped != nil {
		if n, err := f.dropped(); err == nil { // an ended subscription tells nothing
			c.NATSDropped = uint64(n)
		}
	}
	return c
}

// Sources tells how all sources stand, by name.
func (f *Follower) Sources() []SourceStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]SourceStats, 0, f.streams)
	for _, m := range f.members {
		for _, s := range m.ranks {
			all = append(all, SourceStats{s.source, s.counts, s.phase == following, s.last, s.reported})
		}
	}
	slices.SortFunc(all, func(a, b SourceStats) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Rank, b.Rank))
	})
	return all
}

// complete counts the sources of which no event is missing, and the others.
func (f *Follower) complete() (complete, others int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		for _, s := range m.ranks {
			if s.phase == following {
				complete++
			}
		}
	}
	return complete, f.streams - complete
}

// observe shows the counts as metrics.
func (f *Follower) observe(provider metric.MeterProvider) error {
	if provider == nil {
		return nil
	}
	m := provider.Meter("switchyard/kvevent")
	events, err := m.Int64ObservableCounter("switchyard.kvevent.events", metric.WithDescription("Events passed to the index"))
	if err != nil {
		return err
	}
	faults, err := m.Int64ObservableCounter("switchyard.kvevent.faults", metric.WithDescription("What went wrong on the way of the events"))
	if err != nil {
		return err
	}
	snapshots, err := m.Int64ObservableCounter("switchyard.kvevent.snapshots", metric.WithDescription("Snapshots asked of workers"))
	if err != nil {
		return err
	}
	sources, err := m.Int64ObservableGauge("switchyard.kvevent.sources", metric.WithDescription("Sources that are followed"))
	if err != nil {
		return err
	}
	label := func(key, value string) metric.ObserveOption {
		return metric.WithAttributes(attribute.String(key, value), attribute.String("pool", string(f.cfg.Pool)))
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c := f.Counts()
		o.ObserveInt64(events, int64(c.Events), metric.WithAttributes(attribute.String("pool", string(f.cfg.Pool))))
		for kind, n := range map[string]uint64{
			"gap": c.Gaps, "malformed": c.Malformed, "late": c.Late, "overflow": c.Overflow, "refused": c.Refused, "nats_dropped": c.NATSDropped,
		} {
			o.ObserveInt64(faults, int64(n), label("kind", kind))
		}
		o.ObserveInt64(snapshots, int64(c.Snapshots), label("outcome", "taken"))
		o.ObserveInt64(snapshots, int64(c.SnapshotFailures), label("outcome", "none"))
		complete, others := f.complete()
		o.ObserveInt64(sources, int64(complete), label("state", "complete"))
		o.ObserveInt64(sources, int64(others), label("state", "catching_up"))
		return nil
	}, events, faults, snapshots, sources)
	return err
}
