package prefillworker

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/worker"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// hold keeps a computed prompt for its reader.
type hold struct {
	q     *scheduler.Sequence
	grant uint64
	refs  []block.Ref // which may be read
	first int         // the position of the first
	lease time.Duration
	t     *task
}

// offer lets the caller's agent read the blocks from a position on.
func (p *PrefillWorker) offer(c *call, t *task, first int) (*hold, error) {
	layout := p.deps.Worker.Layout()
	blocks, err := t.localBlocks(layout.Blocks(t.spec.Len()))
	if err != nil {
		return nil, err
	}
	h := &hold{q: t.q, t: t, first: first, lease: p.cfg.Hold + time.Duration(t.spec.Len()-first)*p.cfg.HoldPerToken}
	for _, b := range blocks[first/layout.BlockTokens : layout.Blocks(t.spec.Len())] {
		h.refs = append(h.refs, block.Ref{ID: b, Generation: p.deps.Worker.Pool.Generation(b)})
	}
	h.grant = p.calls.nextGrant()
	if err := p.deps.Worker.Agent.Allow(c.decode, nixl.Grant{Number: h.grant, Op: nixl.Read, Blocks: h.refs}); err != nil {
		return nil, fmt.Errorf("allow %s to read: %w", c.decode, err)
	}
	return h, nil
}

// answer tells what is held.
func (t *task) answer(first *result, h *hold) *prefillworkerv1.PrefillResponse {
	return &prefillworkerv1.PrefillResponse{
		FirstTokens: []*transferv1.FirstToken{t.firstToken(first)},
		Blocks:      worker.BlockRefs(h.refs), FirstPosition: uint32(h.first), EndPosition: uint32(t.spec.Len()),
		Grant: h.grant, Hold: durationpb.New(h.lease),
		ComputedTokens: uint32(t.spec.Len() - t.own), OwnHitTokens: uint32(t.own),
		AdmitTime: durationpb.New(t.admitting), ComputeTime: durationpb.New(t.computing),
		MemoryEpoch: t.p.deps.Worker.MemoryEpoch(),
	}
}

// free gives back what a call held.
func (p *PrefillWorker) free(c *call, h *hold) {
	p.revoke(c.decode, h.grant)
	h.q.Release()
	p.calls.leave(c)
}

// take ends a hold if the call has one. The caller has mu.
func (s *calls) take(c *call, state callState) *hold {
	if c.state != holding {
		return nil
	}
	h := c.held
	s.end(c, state)
	return h
}

// release ends a hold for its reader, and says whether the blocks were held until now.
func (p *PrefillWorker) release(key attemptKey) bool {
	s := &p.calls
	s.mu.Lock()
	c := s.known[key]
	var h *hold
	if c != nil {
		h = s.take(c, released)
	}
	intact := c != nil && c.state == released
	s.mu.Unlock()
	if !intact {
		p.tally(func(r *prefillworkerv1.JobReport) { r.StaleReleases++ })
		return false
	}
	if h != nil {
		p.tally(func(r *prefillworkerv1.JobReport) {
			r.HoldsReleased++
			r.PromptTokens += uint64(h.t.spec.Len())
			r.OwnHitTokens += uint64(h.t.own)
			r.ComputedTokens += uint64(h.t.spec.Len() - h.t.own)
		})
		p.free(c, h)
	}
	return true
}

// drop ends a call that nobody wants any more, wherever it is.
func (p *PrefillWorker) drop(c *call, cause error) {
	s := &p.calls
	s.mu.Lock()
	h := s.take(c, ended)
	if h == nil && c.state == computing {
		c.dropped = true
		c.cancel(cause)
	}
	s.mu.Unlock()
	if h != nil {
		p.tally(func(r *prefillworkerv1.JobReport) { r.HoldsDropped++ })
		p.free(c, h)
	}
}

// dropAll drops the calls in work or held that match.
func (p *PrefillWorker) dropAll(cause error, match func(*call) bool) {
	var list []*call
	p.calls.mu.Lock()
	for _, c := range p.calls.known {
		if (c.state == computing || c.state == holding) && match(c) {
			list = append(list, c)
		}
	}
	p.calls.mu.Unlock()
	for _, c := range list {
		p.drop(c, cause)
	}
}

// sweepCalls ends the holds whose lease is over or whose reader has left.
func (p *PrefillWorker) sweepCalls(now time.Time) {
	type over struct {
		c *call
		h *hold
	}
	var expired []over
	s := &p.calls
	s.mu.Lock()
	for _, c := range s.known {
		if c.state == holding && !c.expiry.After(now) {
			expired = append(expired, over{c, s.take(c, ended)})
		}
	}
	s.forget(now)
	s.mu.Unlock()
	for _, e := range expired {
		p.log.Warn("what a decode worker asked for was not fetched in time", "transfer_id", e.c.key.transfer, "peer", e.c.decode.String(),
			"blocks", len(e.h.refs))
		p.tally(func(r *prefillworkerv1.JobReport) { r.HoldsExpired++ })
		p.free(e.c, e.h)
	}
	p.dropAll(nixl.ErrGone, p.readerLeft)
}

// readerLeft says that the decode worker of a call lives no more, as the members have it. One
// that was never listed may only not be known here yet. The caller has calls.mu.
func (p *PrefillWorker) readerLeft(c *call) bool {
	instance, known := p.deps.DecodeWorkers.Find(c.decode.Name)
	switch {
	case instance.GetIncarnation() == c.decode.Incarnation:
		c.seen = true
	case instance != nil:
		return instance.GetIncarnation() > c.decode.Incarnation
	case known:
		return c.seen
	}
	return false
}
