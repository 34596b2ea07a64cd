package router

import (
	"math"
	"slices"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// query is a request while a worker is picked for it. Queries are used again, so that a decision
// allocates nothing.
type query struct {
	req     Request
	choice  Choice
	tokens  float64
	direct  bool // the cheapest is wanted of all workers of group at, which hold all on their devices
	at      int32
	fit     int          // candidates
	groups  []groupQuery // by the router's groups; those of other models are empty
	matches []prefix.Matches
	wanted  int       // groups of the request's model
	list    []int32   // seats that may be picked; none while direct
	costs   []float64 // of those
	pending []int32   // by seat: leading blocks held or waited for; 0 where it adds nothing
	touched []int32   // seats with an entry in pending
	stamps  []uint32  // by depth: looked up in this query
	stamp   uint32
}

// groupQuery is the request in the blocks of one group.
type groupQuery struct {
	wanted bool
	size   int
	chain  []block.Hash // all full blocks
	usable int          // leading ones that can be a hit: never the last token
	// matches is what each slot holds, outputs how long the answer is expected to be; they and what follows
	// from them are filled in under the router's mutex.
	matches *prefix.Matches
	outputs float64
	tariff  tariff
}

// query makes the chains of a request, which takes long for a long one, without the mutex.
func (r *Router) query(req Request) *query {
	q := r.spare.Get().(*query)
	q.req, q.tokens, q.wanted = req, float64(len(req.Tokens)), 0
	keys := *r.sizes.Load()
	q.groups = slices.Grow(q.groups[:0], len(keys))[:len(keys)]
	for len(q.matches) < len(keys) {
		q.matches = append(q.matches, prefix.Matches{})
	}
	for i, key := range keys {
		g := &q.groups[i]
		g.wanted, g.chain, g.matches = key.tokens > 0 && key.model == req.Model, g.chain[:0], nil
		if !g.wanted {
			continue
		}
		q.wanted++
		g.size = key.tokens
		g.chain = prefix.Chain(slices.Grow(g.chain, len(req.Tokens)/g.size), prefix.Root(req.Model, req.LoRA, req.Salt), req.Tokens, g.size)
		g.usable = min(len(g.chain), (len(req.Tokens)-1)/g.size)
	}
	return q
}

// release gives the query's memory back for the next.
func (r *Router) release(q *query) {
	q.req, q.choice = Request{}, Choice{}
	for i := range q.groups {
		if cap(q.groups[i].chain) > chainKept {
			q.groups[i].chain = nil
		}
	}
	r.spare.Put(q)
}

// find fills in what each worker holds and what it will have computed, and lists who may be picked.
// The router's mutex is held until the query is done with.
func (r *Router) find(q *query) {
	q.direct = q.wanted == 1 && q.req.Worker == "" && q.req.LoRA == "" && len(q.req.Avoid) == 0 &&
		r.weights.Policy == KV && r.weights.Temperature == 0
	for i := range q.groups {
		if g := &q.groups[i]; g.wanted {
			g.matches, g.outputs = &q.matches[i], r.outputs(q, i)
			g.tariff = newTariff(&r.weights, &r.groups[i].rates, g, q.tokens)
			r.held.Lookup(g.chain[:g.usable], g.matches)
			q.at, q.direct = int32(i), q.direct && len(g.matches.Tiered) == 0
		}
	}
	q.list = q.list[:0]
	if !q.direct {
		r.enlist(q)
	}
	r.findPending(q)
}

// fits says whether the worker of a seat is a candidate of a direct query.
func (q *query) fits(s *seat) bool { return len(q.req.Tokens) < s.longest && s.group == q.at }

// enlist lists who may be picked.
func (r *Router) enlist(q *query) {
	for i := range r.seats {
		if r.admits(q, i) == "" {
			q.list = append(q.list, int32(i))
		}
	}
	q.fit = len(q.list)
}

// admits says why the worker of a seat cannot be picked; empty if it can.
func (r *Router) admits(q *query, i int) string {
	s := &r.seats[i]
	switch {
	case int(s.group) >= len(q.groups) || !q.groups[s.group].wanted:
		return "serves another model"
	case r.workers[i].draining:
		return "draining"
	case !r.workers[i].attached:
		return "not reachable"
	case len(q.req.Tokens) >= s.longest:
		return "the sequence does not fit its context"
	case q.req.Worker != "" && r.workers[i].ID.Name != q.req.Worker:
		return "another worker is asked for"
	case q.req.LoRA != "" && !slices.Contains(r.workers[i].LoRAs, q.req.LoRA):
		return "lacks the LoRA adapter"
	case len(q.req.Avoid) > 0 && slices.Contains(q.req.Avoid, r.workers[i].ID):
		return "refused the request"
	}
	return ""
}

// findPending looks up what others have sent to the workers and what is not computed yet. Only a
// prompt that waits for exactly the first block that a worker lacks of this one helps there, so one
// look per depth is enough for all workers.
func (r *Router) findPending(q *query) {
	for _, i := range q.touched {
		q.pending[i] = 0
	}
	q.touched = q.touched[:0]
	q.pending = slices.Grow(q.pending[:0], len(r.seats))[:len(r.seats)]
	if r.waits.count == 0 || r.weights.PendingCredit == 0 {
		return
	}
	for gi := range q.groups {
		g := &q.groups[gi]
		if !g.wanted {
			continue
		}
		q.newStamp(g.usable + 1)
		for i := range r.seats {
			if s := &r.seats[i]; int(s.group) == gi && s.longest > 0 {
				r.lookPending(q, g, g.device(s.slot))
			}
		}
	}
}

func (q *query) newStamp(depths int) {
	if len(q.stamps) < depths {
		q.stamps = append(q.stamps, make([]uint32, depths-len(q.stamps))...)
	}
	if q.stamp++; q.stamp == 0 {
		clear(q.stamps)
		q.stamp = 1
	}
}

// lookPending notes the workers that hold so many blocks and wait for the next one.
func (r *Router) lookPending(q *query, g *groupQuery, depth int) {
	if depth >= g.usable || q.stamps[depth] == q.stamp {
		return
	}
	q.stamps[depth] = q.stamp
	for e := r.waits.first[g.chain[depth]]; e != nil; e = e.next {
		if g.device(e.worker.slot) != depth {
			continue
		}
		if n := int32(depth + shared(e.chain[e.from:], g.chain[depth:g.usable])); n > q.pending[e.worker.at] {
			if q.pending[e.worker.at] == 0 {
				q.touched = append(q.touched, int32(e.worker.at))
			}
			q.pending[e.worker.at] = n
		}
	}
}

// device is how many leading blocks a slot holds on its device.
func (g *groupQuery) device(slot prefix.Slot) int {
	if len(g.matches.Tiered) == 0 { // nearly always
		return int(g.matches.Depths[slot])
	}
	return g.matches.Device(slot)
}

// Terms are the parts of a cost. Times are in predicted milliseconds, or in blocks where no
// worker's speed is known; they are not weighted.
type Terms struct {
	// DeviceBlocks are held on the device, in the leading run, HostBlocks and DiskBlocks in lower tiers;
	// PendingBlocks come after those of the device once a request sent before is computed.
	DeviceBlocks, HostBlocks, DiskBlocks, PendingBlocks int
	// UncachedTokens is the prompt less what is cached, each tier by its credit.
	UncachedTokens float64
	// Prefill is the time to compute those, Queue that of the prompts before it, Decode that of
	// generating the answer beside the running sequences, Stall what those wait in all for the prompt.
	Prefill, Queue, Decode, Stall float64
	// InBlocks says in which unit.
	InBlocks bool
}

// terms are those of a seat's worker.
func (r *Router) terms(q *query, i int32) Terms {
	s := &r.seats[i]
	g := &q.groups[s.group]
	m, rates := g.matches, &r.groups[s.group].rates
	t := Terms{
		DeviceBlocks: g.device(s.slot), HostBlocks: m.Count(s.slot, prefix.Host), DiskBlocks: m.Count(s.slot, prefix.Disk),
		Queue: s.queue(rates), InBlocks: rates.blocks,
	}
	t.PendingBlocks = max(0, int(q.pending[i])-t.DeviceBlocks)
	t.UncachedTokens = q.tokens - float64(g.size)*r.credit(q, i)
	t.Prefill = s.factor * (rates.fixed + rates.token*t.UncachedTokens)
	t.Stall = s.running * t.Prefill
	t.Decode = g.outputs * s.decode(rates, q.tokens)
	return t
}

// credit is how many leading blocks count as cached.
func (r *Router) credit(q *query, i int32) float64 {
	at := &r.seats[i]
	m := q.groups[at.group].matches
	held := m.Depths[at.slot]
	credit := float64(held)
	if len(m.Tiered) > 0 { // seldom
		held = uint32(m.Device(at.slot))
		credit = float64(held) + r.weights.HostCredit*float64(m.Count(at.slot, prefix.Host)) + r.weights.DiskCredit*float64(m.Count(at.slot, prefix.Disk))
	}
	if n := q.pending[i]; n > int32(held) {
		credit = max(credit, float64(held)+r.weights.PendingCredit*float64(n-int32(held)))
	}
	return credit
}

// outputs is how many tokens the answer is expected to have.
func (r *Router) outputs(q *query, group int) float64 {
	g := r.groups[group]
	if g.known == 0 { // in blocks a sequence counts once
		return 1
	}
	expected := g.outputs
	if q.req.MaxOutput > 0 {
		return math.Min(expected, float64(q.req.MaxOutput))
	}
	return expected
}

// cost is that of a seat's worker, as Terms explain it.
func (r *Router) cost(q *query, i int32) float64 {
	s := &r.seats[i]
	return q.groups[s.group].tariff.cost(s, r.credit(q, i))
}

// load is the cost without the request's own prompt.
func (r *Router) load(q *query, i int32) float64 {
	s := &r.seats[i]
	return q.groups[s.group].tariff.load(s)
}

// tariff is what a cost asks of all workers of a group alike, weights and rates worked in.
type tariff struct {
	prefill, stall        float64 // weights
	prompt, block         float64 // time of the whole prompt, and of a block of it
	token                 float64 // time of a token that waits to be computed
	answer, sequence, row float64 // of the answer: beside nothing, for each sequence and each token of those; weighted
}

func newTariff(w *Weights, p *rates, g *groupQuery, tokens float64) tariff {
	decode := w.DecodeWeight * g.outputs
	return tariff{
		prefill: w.PrefillWeight, stall: w.StallWeight, prompt: p.fixed + p.token*tokens, block: p.token * float64(g.size), token: p.token,
		answer: decode * (p.step + p.sequence + p.stepRows*tokens), sequence: decode * p.sequence, row: decode * p.stepRows,
	}
}

// cost is a worker's, of which so many leading blocks are cached.
func (t *tariff) cost(s *seat, credit float64) float64 {
	return s.factor*(t.prefill+t.stall*s.running)*(t.prompt-t.block*credit) + t.load(s)
}

func (t *tariff) load(s *seat) float64 {
	return s.factor * (t.token*s.queued + t.answer + t.sequence*s.running + t.row*s.active)
}

// cost weighs the terms.
func (w *Weights) cost(t *Terms) float64 {
	return w.PrefillWeight*t.Prefill + t.Queue + w.DecodeWeight*t.Decode + w.StallWeight*t.Stall
}
