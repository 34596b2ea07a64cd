package processor

import (
	"cmp"
	"context"
	"slices"

	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// ExplainRoute implements processorv1.ProcessorServer.
func (p *Processor) ExplainRoute(ctx context.Context, r *processorv1.ExplainRouteRequest) (*processorv1.ExplainRouteResponse, error) {
	base, err := p.prompt(ctx, r.GetRequest())
	if err != nil {
		return nil, err
	}
	list, weights := p.router.Explain(router.Request{
		Model: p.deps.Model.Name, Salt: base.GetCacheSalt(), Tokens: base.GetPrompt(), MaxOutput: int(base.GetMaxTokens()),
		Session: r.GetRequest().GetSession(), Worker: r.GetRequest().GetDecodeWorker(),
	})
	out := &processorv1.ExplainRouteResponse{
		PromptTokens: uint32(len(base.GetPrompt())), Policy: string(weights.Policy),
		PrefillWeight: weights.PrefillWeight, DecodeWeight: weights.DecodeWeight, StallWeight: weights.StallWeight,
	}
	for _, e := range list {
		t := &e.Terms
		out.Candidates = append(out.Candidates, &processorv1.Candidate{
			Worker: e.ID.Name, Incarnation: e.ID.Incarnation, Excluded: e.Excluded, Cost: e.Cost,
			Prefill: t.Prefill, Queue: t.Queue, Decode: t.Decode, Stall: t.Stall, InBlocks: t.InBlocks, UncachedTokens: t.UncachedTokens,
			DeviceBlocks: uint32(t.DeviceBlocks), HostBlocks: uint32(t.HostBlocks), DiskBlocks: uint32(t.DiskBlocks), PendingBlocks: uint32(t.PendingBlocks),
		})
	}
	return out, nil
}

// Routing implements processorv1.ProcessorServer.
func (p *Processor) Routing(context.Context, *processorv1.RoutingRequest) (*processorv1.RoutingResponse, error) {
	counts, index := p.router.Counts(), p.router.Index()
	out := &processorv1.RoutingResponse{
		Decisions: counts.Decisions, HitBlocks: counts.HitBlocks, PendingBlocks: counts.PendingBlocks,
		Corrections: counts.Corrections, CorrectedBlocks: counts.CorrectedBlocks, SharedBookings: counts.Shared,
		IndexEntries: uint64(index.Entries), IndexBytes: uint64(index.Bytes), IndexEvictions: index.Evictions,
	}
	for _, e := range []*events{p.workers.events, p.prefillEvents} {
		c := e.counts()
		out.EventGaps, out.Snapshots = out.EventGaps+c.Gaps, out.Snapshots+c.Snapshots
	}
	last := p.workers.events.sequences()
	for _, l := range p.router.Loads() {
		w := &processorv1.RoutedWorker{
			Worker: l.ID.Name, Incarnation: l.ID.Incarnation, Attached: l.Attached,
			PrefillTokens: uint64(l.PrefillTokens), DecodeTokens: uint64(l.DecodeTokens), HeldBlocks: uint64(max(0, l.HeldBlocks)),
			KvSequence: last[l.ID],
		}
		if peer := p.workers.peer(l.ID); peer != nil {
			t := &peer.traffic
			w.Sequences, w.PromptTokens, w.ExpectedTokens, w.CachedTokens = t.sequences.Load(), t.prompt.Load(), t.expected.Load(), t.cached.Load()
		}
		out.Workers = append(out.Workers, w)
	}
	slices.SortFunc(out.Workers, func(a, b *processorv1.RoutedWorker) int {
		return cmp.Or(cmp.Compare(a.GetWorker(), b.GetWorker()), cmp.Compare(a.GetIncarnation(), b.GetIncarnation()))
	})
	return out, nil
}
