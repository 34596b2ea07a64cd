package prefillworker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// How long, and how many, calls that have ended are remembered, so that repetitions of
// Prefill, Release and Cancel are answered as before. One forgotten is answered as stale.
const (
	rememberFor   = time.Minute
	rememberCalls = 4096
)

// callState is how far a call has come.
type callState uint8

const (
	computing callState = iota // or writing, in the rendezvous style
	holding
	released // by its reader, or committed: all went well
	ended    // otherwise
)

// call is a decode worker's request for a prompt, known until some time after its end.
type call struct {
	*attempt
	decode nixl.PeerID

	done chan struct{} // closed once the next two are set
	resp *prefillworkerv1.PrefillResponse
	err  error

	// Guarded by calls.mu.
	state   callState
	waiting int  // callers that wait for done
	told    bool // one of them had the answer
	dropped bool // while it computed
	seen    bool // its decode worker was among the members
	blocks  int  // counted as held
	held    *hold
	expiry  time.Time // of the hold; once ended: of the memory
}

// calls are those of one prefill worker.
type calls struct {
	mu     sync.Mutex // guards all below
	known  map[attemptKey]*call
	ended  []*call // oldest first
	busy   int     // in state computing: each takes a slot
	active int     // whose blocks are not all back
	blocks int     // held, or to be held
	peak   int
	grants uint64

	leaving bool
	idle    chan struct{} // closed once it is leaving and none is active
}

func newCalls() calls {
	return calls{known: make(map[attemptKey]*call), idle: make(chan struct{})}
}

// nextGrant numbers a leave to read.
func (s *calls) nextGrant() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants++
	return s.grants
}

func (s *calls) find(key attemptKey) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key]
}

// enter finds the call that a request repeats, or begins one if there is room for it.
func (p *PrefillWorker) enter(ctx context.Context, r *prefillworkerv1.PrefillRequest) (c *call, begun bool, err error) {
	key := attemptKey{r.GetTransferId(), r.GetAttemptId()}
	blocks := 0
	if layout := p.deps.Worker.Layout(); p.cfg.Engine.Style == worker.Pull {
		blocks = layout.Blocks(len(r.GetSequence().GetPrompt())+len(r.GetSequence().GetGenerated())) - int(r.GetFirstPosition())/layout.BlockTokens
	}
	s := &p.calls
	s.mu.Lock()
	defer s.mu.Unlock()
	if c = s.known[key]; c != nil {
		if c.state == released || c.state == ended || c.dropped {
			return nil, false, status.Error(codes.Aborted, fmt.Sprintf("attempt %s has ended", key.attempt))
		}
		c.waiting++
		p.tally(func(r *prefillworkerv1.JobReport) { r.CallsRepeated++ })
		return c, false, nil
	}
	if err := p.room(blocks); err != nil {
		p.tally(func(r *prefillworkerv1.JobReport) { r.CallsRefused++ })
		return nil, false, err
	}
	// The callers' contexts end the work by await, not by themselves: there may be several.
	c = &call{
		attempt: p.beginAs(context.WithoutCancel(ctx), key), decode: decodePeer(r), done: make(chan struct{}), waiting: 1, blocks: blocks,
	}
	s.known[key] = c
	s.busy++
	s.active++
	s.blocks += blocks
	s.peak = max(s.peak, s.blocks)
	p.tally(func(r *prefillworkerv1.JobReport) { r.Calls++ })
	return c, true, nil
}

// room says why no call that would hold so many blocks can begin. The caller has calls.mu.
func (p *PrefillWorker) room(blocks int) error {
	s := &p.calls
	switch {
	case s.leaving:
		return rpc.Unavailable("the worker is draining")
	case s.busy >= p.cfg.Calls:
		return rpc.ResourceExhausted(fmt.Sprintf("%d prompts are in work, which is the most", s.busy), 0)
	case s.blocks+blocks > p.heldCap():
		return rpc.ResourceExhausted(fmt.Sprintf("%d blocks are held and %d would be, want at most %d", s.blocks, blocks, p.heldCap()), 0)
	}
	return nil
}

// heldCap is how many blocks may be held for readers: a quarter of the pool.
func (p *PrefillWorker) heldCap() int {
	return p.cfg.Pool.PoolTokens / p.deps.Worker.Layout().BlockTokens / 4
}

// await waits for a call's answer. Once nobody waits who was not told, the work is dropped.
func (p *PrefillWorker) await(ctx context.Context, c *call) (*prefillworkerv1.PrefillResponse, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	s := &p.calls
	s.mu.Lock()
	c.waiting--
	left := ctx.Err() != nil && c.waiting == 0 && !c.told
	c.told = c.told || ctx.Err() == nil
	s.mu.Unlock()
	if left {
		p.drop(c, errLeft)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.resp, c.err
}

// conclude answers a call's callers. What is held stays so, unless the call was dropped.
func (p *PrefillWorker) conclude(c *call, resp *prefillworkerv1.PrefillResponse, h *hold, err error) {
	s := &p.calls
	s.mu.Lock()
	s.busy--
	dropped := c.dropped
	switch {
	case err != nil || dropped:
		s.end(c, ended)
	case h == nil:
		s.end(c, released)
	default:
		c.state, c.held, c.expiry = holding, h, time.Now().Add(h.lease)
	}
	if err == nil {
		resp.Credits = uint32(max(0, p.cfg.Calls-s.busy))
		if s.leaving {
			resp.Credits = 0
		}
	}
	c.resp, c.err = resp, err
	if dropped && err == nil {
		c.resp, c.err = nil, status.Error(codes.Aborted, context.Cause(c.ctx).Error())
	}
	close(c.done)
	s.mu.Unlock()
	switch {
	case h == nil:
		s.leave(c)
	default:
		p.tally(func(r *prefillworkerv1.JobReport) { r.Holds++ })
		if dropped {
			p.tally(func(r *prefillworkerv1.JobReport) { r.HoldsDropped++ })
			p.free(c, h)
		}
	}
}

// end remembers a call as ended. The caller has mu.
func (s *calls) end(c *call, state callState) {
	c.state, c.held, c.expiry = state, nil, time.Now().Add(rememberFor)
	s.ended = append(s.ended, c)
	s.forget(time.Now())
}

// forget drops the oldest memories. The caller has mu.
func (s *calls) forget(now time.Time) {
	for len(s.ended) > 0 && (len(s.ended) > rememberCalls || !s.ended[0].expiry.After(now)) {
		delete(s.known, s.ended[0].key)
		s.ended[0] = nil
		s.ended = s.ended[1:]
	}
}

// bar remembers a cancel that came before its call.
func (s *calls) bar(key attemptKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] == nil {
		c := &call{attempt: &attempt{key: key}}
		s.known[key] = c
		s.end(c, ended)
	}
}

// leave says that all blocks of a call are back.
func (s *calls) leave(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks -= c.blocks
	s.active--
	s.checkIdle()
}

func (s *calls) checkIdle() {
	if s.leaving && s.active == 0 {
		close(s.idle)
		s.idle = nil
	}
}

// drainCalls refuses new calls once ctx ends and waits for those in work and for the
// readers of what is held, for at most the drain time and while the engine lives; then it
// drops them.
func (p *PrefillWorker) drainCalls(ctx, engine context.Context) error {
	<-ctx.Done()
	s := &p.calls
	s.mu.Lock()
	idle := s.idle
	s.leaving = true
	s.checkIdle()
	s.mu.Unlock()
	timer := time.NewTimer(p.cfg.Drain)
	defer timer.Stop()
	select {
	case <-idle:
		return nil
	case <-timer.C:
	case <-engine.Done():
	}
	p.dropAll(errDraining, func(*call) bool { return true })
	<-idle
	return nil
}
