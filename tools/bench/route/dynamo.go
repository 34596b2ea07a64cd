package route

import (
	"math/rand/v2"
	"time"
)

// dynamo is the cost that Dynamo publishes for its router, in blocks, at its defaults:
//
//	max(0, (active prefill tokens + prompt tokens) / block - overlap) + potential decode blocks
//
// The load is the router's own: a request's uncached tokens count as active prefill from
// its dispatch to its first token, and its blocks as decode blocks to its end, each block
// of a worker once however many requests share it. Ties are broken at random. It has
// every event in time, and no request outlives its book-keeping.
type dynamo struct {
	cluster *Cluster
	random  *rand.Rand
	prefill []int      // tokens, by worker
	decode  []int      // blocks, by worker
	active  []holdings // by worker
	size    func(r *Request, place int) int
}

func newDynamo(c *Cluster, random *rand.Rand) Policy {
	p := &dynamo{
		cluster: c, random: random,
		prefill: make([]int, c.Config.Workers), decode: make([]int, c.Config.Workers), active: make([]holdings, c.Config.Workers),
		size: func(r *Request, place int) int { return r.tokens(place) / c.Config.BlockTokens },
	}
	for w := range p.active {
		p.active[w] = make(holdings, c.Trace.Runs)
	}
	return p
}

func (p *dynamo) Pick(_ time.Duration, r *Request) Choice {
	l := lowest{random: p.random}
	size := p.cluster.Config.BlockTokens
	uncached := make([]int, len(p.prefill))
	for w := range p.prefill {
		overlap := p.cluster.Resident(w, r)
		uncached[w] = r.InputTokens - overlap*size
		prefill := max(0, float64(p.prefill[w]+r.InputTokens)/float64(size)-float64(overlap))
		l.offer(w, prefill+float64(p.decode[w]+p.fresh(w, r)))
	}
	return Choice{Worker: l.best, Uncached: uncached[l.best]}
}

// fresh are the request's blocks that no active request of the worker has.
func (p *dynamo) fresh(w int, r *Request) int {
	blocks := 0
	for place, run := range r.Runs {
		if p.active[w][run] == 0 {
			blocks += p.size(r, place)
		}
	}
	return blocks
}

func (p *dynamo) Booked(b Booking) {
	p.decode[b.Worker] += p.fresh(b.Worker, b.Request)
	p.active[b.Worker].add(b.Request)
	p.prefill[b.Worker] += b.Uncached
}

func (p *dynamo) FirstToken(b Booking) { p.prefill[b.Worker] -= b.Uncached }

func (p *dynamo) Ended(b Booking) {
	p.active[b.Worker].remove(b.Request)
	p.decode[b.Worker] -= p.fresh(b.Worker, b.Request)
}

func (p *dynamo) Report(time.Duration, int, Report) {}

// holdings count, by run, the requests that have it.
type holdings []uint16

func (h holdings) add(r *Request) {
	for _, run := range r.Runs {
		h[run]++
	}
}

func (h holdings) remove(r *Request) {
	for _, run := range r.Runs {
		h[run]--
	}
}
