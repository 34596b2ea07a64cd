package route

import (
	"math/rand/v2"
	"time"
)

// arrivals says when each request arrives. Traces with a coarse clock have many requests
// at one tick, which no real cluster sees: those of a tick are spread over the time to the
// next one, in their order, each at a random place of its own equal part. The trace is
// the same whatever the rate is; only its time is compressed.
func arrivals(t *Trace, rate float64, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(seed, 0))
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
		part := float64(gap) / float64(end-begin)
		for i := begin; i < end; i++ {
			at[i] = time.Duration((float64(tick) + (float64(i-begin)+random.Float64())*part) / rate)
		}
		begin = end
	}
	return at
}
