package route

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// reference is the same pool in the plainest way: a list of blocks, least recently used
// first, for requests that come one after the other.
type reference struct {
	capacity int
	blocks   []entry
}

type entry struct {
	run   int32
	place int
}

func (p *reference) touch(b entry) {
	p.blocks = append(slices.DeleteFunc(p.blocks, func(o entry) bool { return o == b }), b)
}

// serve is what happens to a request from its begin to its end, and says how much hit.
func (p *reference) serve(r *Request, size int, serial int) int {
	var chain []entry
	for place, run := range r.Runs {
		for i := range r.tokens(place) / size {
			chain = append(chain, entry{run, i})
		}
	}
	hit := 0
	for hit < min(len(chain), (r.InputTokens-1)/size) && slices.Contains(p.blocks, chain[hit]) {
		hit++
	}
	for _, b := range slices.Backward(chain[:hit]) {
		p.touch(b) // what it uses is not evicted for it
	}
	need := (r.InputTokens+r.OutputTokens+size-1)/size - hit
	if spare := p.capacity - len(p.blocks); spare < need {
		p.blocks = p.blocks[need-spare:]
	}
	for i := range (r.InputTokens+r.OutputTokens-1)/size - r.InputTokens/size {
		p.touch(entry{int32(-2 - serial), -i}) // of the generated ones, the last goes first, as all of one request
	}
	for _, b := range slices.Backward(chain) {
		p.touch(b)
	}
	return hit
}

func TestCacheHitsWhatAPlainListOfBlocksHits(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Workers = 1
	for seed := range uint64(3) {
		trace := synthetic(t, 60, seed)
		cfg.PoolBlocks = 2000 + int(seed)*400
		plain := &reference{capacity: cfg.PoolBlocks}
		c := newCache(cfg.PoolBlocks, trace.Runs)
		for i := range trace.Requests {
			r := &trace.Requests[i]
			want := plain.serve(r, cfg.BlockTokens, i)
			s := sequence{request: r}
			if !s.start(c, &cfg) {
				t.Fatalf("seed %d: request %d has no room in an idle pool", seed, i)
			}
			if got := s.hit / cfg.BlockTokens; got != want {
				t.Fatalf("seed %d: request %d hits %d blocks, want %d", seed, i, got, want)
			}
			s.compute(c, r.InputTokens-s.hit, cfg.BlockTokens)
			s.end(c, cfg.BlockTokens)
			if c.used != 0 || c.idle != len(plain.blocks) {
				t.Fatalf("seed %d: after request %d, %d and %d blocks are in use and idle, want 0 and %d", seed, i, c.used, c.idle, len(plain.blocks))
			}
		}
	}
}

// checkCache checks the counts against the nodes, and that no entry is resident without
// the one that it continues.
func checkCache(t *testing.T, c *cache, trace *Trace) {
	t.Helper()
	idle, listed := 0, 0
	for n := c.first; n != none; n = c.nodes[n].next {
		if c.nodes[n].holders != 0 || c.nodes[n].blocks < 1 {
			t.Errorf("the list has %+v", c.nodes[n])
		}
		idle += int(c.nodes[n].blocks)
		listed++
	}
	if idle != c.idle || c.used+c.idle > c.capacity || c.used < 0 {
		t.Errorf("%d blocks are listed, %d counted, %d used, of %d", idle, c.idle, c.used, c.capacity)
	}
	for i := range trace.Requests {
		r := &trace.Requests[i]
		for place := 1; place < len(r.Runs); place++ {
			if c.resident(r.Runs[place]) > 0 && c.resident(r.Runs[place-1]) < r.tokens(place-1)/32 {
				t.Fatalf("run %d is resident, and run %d before it is not", r.Runs[place], r.Runs[place-1])
			}
		}
	}
}

// Random sequences that overlap: at every step the counts are right.
func TestCacheCountsWhatSequencesHold(t *testing.T) {
	cfg := DefaultConfig()
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 3))
		trace := synthetic(t, 200, seed)
		c := newCache(6000, trace.Runs)
		var running []*sequence
		for next := 0; next < len(trace.Requests) || len(running) > 0; {
			if next < len(trace.Requests) && random.IntN(3) == 0 {
				s := &sequence{request: &trace.Requests[next]}
				if s.start(c, &cfg) {
					running = append(running, s)
					next++
				}
			}
			if len(running) > 0 {
				i := random.IntN(len(running))
				s := running[i]
				if left := s.request.InputTokens - s.computed; left > 0 {
					s.compute(c, 1+random.IntN(min(left, 3000)), cfg.BlockTokens)
				} else {
					s.end(c, cfg.BlockTokens)
					running = slices.Delete(running, i, i+1)
				}
			}
			want := 0
			for _, s := range running {
				want += s.own
			}
			for i := range c.nodes {
				if c.nodes[i].holders > 0 {
					want += int(c.nodes[i].blocks)
				}
			}
			if c.used != want {
				t.Fatalf("seed %d: %d blocks are counted as used, want %d", seed, c.used, want)
			}
		}
		checkCache(t, c, trace)
	}
}
