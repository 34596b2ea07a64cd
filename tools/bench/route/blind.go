package route

import (
	"math/rand/v2"
	"time"
)

// deaf is a policy that needs no news.
type deaf struct{}

func (deaf) Booked(Booking)                    {}
func (deaf) FirstToken(Booking)                {}
func (deaf) Ended(Booking)                     {}
func (deaf) Report(time.Duration, int, Report) {}

// roundRobin takes one worker after the other.
type roundRobin struct {
	deaf
	workers, turn int
}

func newRoundRobin(c *Cluster, _ *rand.Rand) Policy { return &roundRobin{workers: c.Config.Workers} }

func (p *roundRobin) Pick(_ time.Duration, r *Request) Choice {
	w := p.turn
	p.turn = (p.turn + 1) % p.workers
	return Choice{Worker: w, Uncached: r.InputTokens}
}

// anyWorker takes any.
type anyWorker struct {
	deaf
	workers int
	random  *rand.Rand
}

func newRandom(c *Cluster, random *rand.Rand) Policy {
	return &anyWorker{workers: c.Config.Workers, random: random}
}

func (p *anyWorker) Pick(_ time.Duration, r *Request) Choice {
	return Choice{Worker: p.random.IntN(p.workers), Uncached: r.InputTokens}
}

// leastLoaded takes the worker with the fewest tokens: of prompts to be computed, taken to
// be uncached until their prefill begins, and of running sequences.
type leastLoaded struct {
	deaf
	ledger
	random *rand.Rand
}

func newLeastLoaded(c *Cluster, random *rand.Rand) Policy {
	return &leastLoaded{ledger: newLedger(c.Config.Workers), random: random}
}

func (p *leastLoaded) Booked(b Booking) { p.ledger.Booked(b) }
func (p *leastLoaded) Report(now time.Duration, worker int, r Report) {
	p.ledger.Report(now, worker, r)
}

func (p *leastLoaded) Pick(_ time.Duration, r *Request) Choice {
	l := lowest{random: p.random}
	for w := range p.workers {
		l.offer(w, float64(p.tokens(w)))
	}
	return Choice{Worker: l.best, Uncached: r.InputTokens}
}

// powerOfTwo takes the one of two random workers that leastLoaded would take.
type powerOfTwo struct{ leastLoaded }

func newPowerOfTwo(c *Cluster, random *rand.Rand) Policy {
	return &powerOfTwo{leastLoaded{ledger: newLedger(c.Config.Workers), random: random}}
}

func (p *powerOfTwo) Pick(_ time.Duration, r *Request) Choice {
	n := len(p.workers)
	w := p.random.IntN(n)
	if n > 1 {
		other := (w + 1 + p.random.IntN(n-1)) % n
		if p.tokens(other) < p.tokens(w) {
			w = other
		}
	}
	return Choice{Worker: w, Uncached: r.InputTokens}
}
