package serve

import (
	"math"
	"time"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/tools/bench/route"
)

// arrivals gives the times of an open loop, one after the other.
func arrivals(cfg *Config) func() time.Duration {
	if cfg.Trace != nil {
		times, next := traceArrivals(cfg.Trace, cfg.RateScale, cfg.Seed), -1
		return func() time.Duration { next++; return times[next] }
	}
	r := random(cfg.Seed, forArrivals, 0)
	at, gap := 0.0, 1/cfg.Rate
	return func() time.Duration {
		now := at
		if cfg.Arrivals == Poisson {
			now = at + exponential(r)*gap
			at = now
		} else {
			at += gap
		}
		return time.Duration(now * float64(time.Second))
	}
}

func exponential(r *corpus.Random) float64 { return -math.Log(unit(r)) }

// traceArrivals spreads the requests that share a tick of a trace over the time to the next
// one, as `bench route` does: no real cluster sees many requests at each tick of a coarse clock.
func traceArrivals(t *route.Trace, scale float64, seed uint64) []time.Duration {
	r := random(seed, forArrivals, 0)
	at := make([]time.Duration, len(t.Requests))
	gap := time.Duration(0) // the last tick is taken to be as long as the one before
	for begin := 0; begin < len(at); {
		tick, end := t.Requests[begin].Tick, begin
		for end < len(at) && t.Requests[end].Tick == tick {
			end++
		}
		if end < len(at) {
			gap = t.Requests[end].Tick - tick
		}
		part := 0.0
		if end-begin > 1 { // a tick of one request is its time
			part = float64(gap) / float64(end-begin)
		}
		for i := begin; i < end; i++ {
			at[i] = time.Duration((float64(tick) + (float64(i-begin)+unit(r)*0.999)*part) / scale)
		}
		begin = end
	}
	return at
}
