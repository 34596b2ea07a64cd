package router

import (
	"math"

	"github.com/zeebo/xxh3"
)

// Choice is a worker picked and booked. It is its holder's, who must end it: with Ended once
// the request is over at the worker.
type Choice struct {
	Worker WorkerID
	// Booking numbers the request on the worker's stream, from 1, without gaps.
	Booking uint64
	// CachedTokens is how much of the request the router takes to be resident when its turn comes,
	// HeldTokens how much of that the worker holds already, as far as the router knows.
	CachedTokens, HeldTokens int
	// Cost is the worker's weighted cost before the request, Terms its parts.
	Cost  float64
	Terms Terms
	// Candidates is how many workers could have been picked.
	Candidates int

	stream     uint64 // the booking's number is of this stream
	booking    booking
	heldBlocks int
	wait       *wait
}

// Pick selects a worker and books the request on it. send puts the request on the
// worker's stream; it is called under the router's mutex, so that bookings travel in the
// order of their numbers, and must neither block nor call the router. When it returns
// false, the stream is broken and the next worker is tried. The error is ErrNoWorker.
func (r *Router) Pick(req Request, send func(*Choice) bool) (Choice, error) {
	q := r.query(&req)
	defer r.release(q)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	for {
		r.find(q)
		if len(q.list) == 0 || r.weights.Policy == Direct && req.Worker == "" {
			return Choice{}, ErrNoWorker
		}
		i := r.choose(q)
		w, c := r.workers[i], r.choice(q, i)
		group := &q.groups[r.seats[i].group]
		r.book(w, group, &c, len(req.Tokens))
		if send(&c) {
			r.sent(w, group, &c)
			return c, nil
		}
		r.waits.drop(c.wait)
		w.attached = false
		r.restart(w)
	}
}

func (r *Router) choice(q *query, i int32) Choice {
	t := r.terms(q, i)
	size := r.workers[i].BlockTokens
	return Choice{
		Worker: r.workers[i].ID, Candidates: len(q.list), Terms: t, Cost: r.weights.cost(&t),
		CachedTokens: (t.DeviceBlocks + t.PendingBlocks) * size, HeldTokens: t.DeviceBlocks * size, heldBlocks: t.DeviceBlocks,
	}
}

// sent tells the others, and assumes that the worker will hold the prompt where it does
// not say so itself.
func (r *Router) sent(w *worker, g *groupQuery, c *Choice) {
	r.counts.Decisions++
	r.counts.HitBlocks += uint64(c.Terms.DeviceBlocks)
	r.counts.PendingBlocks += uint64(c.Terms.PendingBlocks)
	if !w.Events {
		w.assumed.touch(r.opt.Now().Add(r.cfg.AssumeFor), g.chain)
	}
	r.tell(Shared{
		Kind: SharedBooked, Worker: w.ID, Stream: w.stream, Booking: c.Booking, PrefillTokens: int(c.booking.prefill),
		DecodeTokens: int(c.booking.decode), HeldBlocks: c.heldBlocks, Chain: g.chain,
	})
}

// choose applies the policy to at least one candidate and returns its seat.
func (r *Router) choose(q *query) int32 {
	switch r.weights.Policy {
	case RoundRobin:
		r.turn++
		return q.list[r.turn%len(q.list)]
	case Random:
		return q.list[r.opt.Random.IntN(len(q.list))]
	case PowerOfTwo:
		return r.lighter(q, q.list[r.opt.Random.IntN(len(q.list))], q.list[r.opt.Random.IntN(len(q.list))])
	case LeastLoaded:
		return r.cheapest(q, (*Weights).load)
	case Session:
		if q.req.Session != "" {
			return r.home(q)
		}
	}
	if r.weights.Temperature > 0 {
		return r.draw(q)
	}
	return r.cheapest(q, (*Weights).cost)
}

func (r *Router) lighter(q *query, a, b int32) int32 {
	ta, tb := r.terms(q, a), r.terms(q, b)
	if r.weights.load(&tb) < r.weights.load(&ta) {
		return b
	}
	return a
}

// cheapest takes the lowest cost; of n equal ones each is kept with probability 1/n.
func (r *Router) cheapest(q *query, cost func(*Weights, *Terms) float64) int32 {
	best, ties, lowest := q.list[0], 1, math.Inf(1)
	for _, i := range q.list {
		t := r.terms(q, i)
		switch c := cost(&r.weights, &t); {
		case c < lowest:
			best, ties, lowest = i, 1, c
		case c == lowest:
			if ties++; r.opt.Random.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

// draw picks with p ∝ exp(-cost / ((max - min) · temperature)), by the largest of the
// exponents with Gumbel noise, which needs no sum.
func (r *Router) draw(q *query) int32 {
	q.costs = q.costs[:0]
	low, high := math.Inf(1), math.Inf(-1)
	for _, i := range q.list {
		t := r.terms(q, i)
		c := r.weights.cost(&t)
		q.costs = append(q.costs, c)
		low, high = min(low, c), max(high, c)
	}
	scale := (high - low) * r.weights.Temperature
	best, most := q.list[0], math.Inf(-1)
	for k, c := range q.costs {
		x := r.gumbel()
		if scale > 0 {
			x -= (c - low) / scale
		}
		if x > most {
			best, most = q.list[k], x
		}
	}
	return best
}

func (r *Router) gumbel() float64 { return -math.Log(-math.Log(1 - r.opt.Random.Float64())) }

// home is the session's worker by rendezvous hashing: when a worker comes or goes, only the sessions
// that it gains or had move.
func (r *Router) home(q *query) int32 {
	best, most := q.list[0], uint64(0)
	seed := xxh3.HashString(q.req.Session)
	for _, i := range q.list {
		if x := xxh3.HashStringSeed(r.workers[i].ID.Name, seed); x >= most {
			best, most = i, x
		}
	}
	return best
}
