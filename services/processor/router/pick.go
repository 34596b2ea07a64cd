package router

import (
	"math"
	"math/rand/v2"

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

	stream  uint64 // the booking's number is of this stream
	booking booking
	wait    *wait
}

// Pick selects a worker and books the request on it. send puts the request on the
// worker's stream; it is called under the router's mutex, so that bookings travel in the
// order of their numbers, and must neither block nor call the router. When it returns
// false, the stream is broken and the next worker is tried. The error is ErrNoWorker.
func (r *Router) Pick(req Request, send func(*Choice) bool) (Choice, error) {
	q := r.query(req)
	defer r.release(q)
	return r.pick(q, send)
}

// pick is the decision, from the lookup to the booking.
func (r *Router) pick(q *query, send func(*Choice) bool) (Choice, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	for {
		r.find(q)
		i := r.choose(q)
		if i < 0 {
			return Choice{}, ErrNoWorker
		}
		w, c := r.workers[i], &q.choice
		*c = r.choiceOf(q, i)
		group := &q.groups[r.seats[i].group]
		r.book(w, group, c, len(q.req.Tokens))
		if send(c) {
			r.sent(w, group, c)
			return *c, nil
		}
		r.waits.drop(c.wait)
		w.attached = false
		r.restart(w)
	}
}

func (r *Router) choiceOf(q *query, i int32) Choice {
	t := r.terms(q, i)
	size := r.workers[i].BlockTokens
	return Choice{
		Worker: r.workers[i].ID, Candidates: q.fit, Terms: t, Cost: r.weights.cost(&t),
		CachedTokens: (t.DeviceBlocks + t.PendingBlocks) * size, HeldTokens: t.DeviceBlocks * size,
	}
}

// sent tells the others, and assumes that the worker will hold the prompt where it does
// not say so itself.
func (r *Router) sent(w *worker, g *groupQuery, c *Choice) {
	r.counts.Decisions++
	r.counts.HitBlocks += uint64(c.Terms.DeviceBlocks)
	r.counts.PendingBlocks += uint64(c.Terms.PendingBlocks)
	if !w.Events {
		r.assumeChain(&w.assumed, g.chain)
	}
	r.tell(Shared{
		Kind: SharedBooked, Worker: w.ID, Stream: w.stream, Booking: c.Booking, PrefillTokens: int(c.booking.prefill),
		DecodeTokens: int(c.booking.decode), HeldBlocks: c.Terms.DeviceBlocks, Chain: g.chain,
	})
}

// choose applies the policy and returns the seat of a candidate, -1 if there is none.
func (r *Router) choose(q *query) int32 {
	if q.direct {
		return r.cheapestOfAll(q)
	}
	if len(q.list) == 0 || r.weights.Policy == Direct && q.req.Worker == "" {
		return -1
	}
	switch r.weights.Policy {
	case RoundRobin:
		r.turn++
		return q.list[r.turn%len(q.list)]
	case Random:
		return q.list[r.opt.Random.IntN(len(q.list))]
	case PowerOfTwo:
		return r.lighter(q, q.list[r.opt.Random.IntN(len(q.list))], q.list[r.opt.Random.IntN(len(q.list))])
	case LeastLoaded:
		return r.cheapest(q, true)
	case Session:
		if q.req.Session != "" {
			return r.home(q)
		}
	}
	if r.weights.Temperature > 0 {
		return r.draw(q)
	}
	return r.cheapest(q, false)
}

func (r *Router) lighter(q *query, a, b int32) int32 {
	if r.load(q, b) < r.load(q, a) {
		return b
	}
	return a
}

// cheapest takes the lowest cost, or the lowest load; of n equal ones each is kept with probability 1/n.
func (r *Router) cheapest(q *query, load bool) int32 {
	best := nobody(r.opt.Random)
	for _, i := range q.list {
		if load {
			best.try(i, r.load(q, i))
		} else {
			best.try(i, r.cost(q, i))
		}
	}
	return best.seat
}

// cheapestOfAll is cheapest for a direct query, in one pass over all seats.
func (r *Router) cheapestOfAll(q *query) int32 {
	t, depths := q.groups[q.at].tariff, q.groups[q.at].matches.Depths
	best, fit := nobody(r.opt.Random), 0
	for i := range r.seats {
		s := &r.seats[i]
		if !q.fits(s) {
			continue
		}
		fit++
		if c := t.cost(s, float64(depths[s.slot])); c <= best.cost {
			best.try(int32(i), c)
		}
	}
	for _, i := range q.touched { // what is pending only makes them cheaper
		if q.fits(&r.seats[i]) {
			best.try(i, r.cost(q, i))
		}
	}
	q.fit = fit
	return best.seat
}

// lowest keeps the seat with the lowest cost.
type lowest struct {
	random *rand.Rand
	seat   int32
	ties   int
	cost   float64
}

func nobody(random *rand.Rand) lowest { return lowest{random: random, seat: -1, cost: math.Inf(1)} }

func (l *lowest) try(seat int32, cost float64) {
	switch {
	case cost < l.cost || l.ties == 0:
		l.seat, l.ties, l.cost = seat, 1, cost
	case cost == l.cost:
		if l.ties++; l.random.IntN(l.ties) == 0 {
			l.seat = seat
		}
	}
}

// draw picks with p ∝ exp(-cost / ((max - min) · temperature)), by the largest of the
// exponents with Gumbel noise, which needs no sum.
func (r *Router) draw(q *query) int32 {
	q.costs = q.costs[:0]
	low, high := math.Inf(1), math.Inf(-1)
	for _, i := range q.list {
		c := r.cost(q, i)
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
