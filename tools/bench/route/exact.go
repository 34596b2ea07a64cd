package route

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
)

// KVConfig are the weights of the kv policy, whose cost of a worker is, in predicted ms,
//
//	prefill weight · prefill time of the request's uncached tokens
//	+ prefill time of all tokens that are to be computed there
//	+ decode weight · decode term
//	+ stall weight · sequences that generate there · prefill time of the request's uncached tokens
//
// The last term is what the others lose, whose tokens wait for the pieces of the prompt.
type KVConfig struct {
	PrefillWeight, DecodeWeight, StallWeight float64

	Decode DecodeForm
	// Temperature makes the choice random, p ~ exp(-cost / ((max - min) · T)); 0 takes the lowest cost.
	Temperature float64
	// Pending says that blocks count as resident on a worker that is about to compute them.
	Pending bool
}

// DecodeForm is what the decode term of a worker's cost is.
type DecodeForm string

const (
	// Step is one decode step of the worker with the request.
	Step DecodeForm = "step"
	// Own is all of the request's decode steps there, as many as requests had so far on average.
	Own DecodeForm = "own"
	// Others is how much longer the steps of the sequences there get, for as many steps.
	Others DecodeForm = "others"
)

var decodeForms = []DecodeForm{Step, Own, Others}

// DefaultKV is what was found best; docs/routing-study.md has the figures.
func DefaultKV() KVConfig {
	return KVConfig{PrefillWeight: 8, DecodeWeight: 1, Decode: Step, Pending: true}
}

// Validate names the first field that cannot be.
func (c KVConfig) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"prefill-weight", c.PrefillWeight}, {"decode-weight", c.DecodeWeight}, {"stall-weight", c.StallWeight}, {"temperature", c.Temperature}} {
		if !(f.value >= 0 && f.value <= math.MaxFloat32) { // not a number is neither
			return fmt.Errorf("%s is %v, want at least 0", f.name, f.value)
		}
	}
	if !slices.Contains(decodeForms, c.Decode) {
		return fmt.Errorf("decode is %q, want one of %v", c.Decode, decodeForms)
	}
	return nil
}

// kv is the cost in predicted milliseconds.
type kv struct {
	ledger
	cfg     KVConfig
	cluster *Cluster
	random  *rand.Rand
	pending []holdings
	output  mean
	costs   []float64
	miss    []int
}

type mean struct{ sum, n float64 }

func newKV(c *Cluster, random *rand.Rand, cfg KVConfig) Policy {
	p := &kv{
		ledger: newLedger(c.Config.Workers), cfg: cfg, cluster: c, random: random, pending: make([]holdings, c.Config.Workers),
		costs: make([]float64, c.Config.Workers), miss: make([]int, c.Config.Workers), output: mean{256, 1},
	}
	for w := range p.pending {
		p.pending[w] = make(holdings, c.Runs)
	}
	return p
}

func (p *kv) step(s timing.Step) float64 { return float64(p.cluster.Config.Timing.Step(s)) / 1e6 }

// prefill is the time to compute so many tokens, in ms.
func (p *kv) prefill(tokens int) float64 {
	most := p.cluster.Config.PassTokens
	return float64(tokens/most)*p.step(timing.Step{PromptTokens: most}) + p.step(timing.Step{PromptTokens: tokens % most})
}

func (p *kv) uncached(w int, r *Request) int {
	c := p.cluster
	size := c.Config.BlockTokens
	if !p.cfg.Pending {
		return r.InputTokens - c.Resident(w, r)*size
	}
	most, blocks := (r.InputTokens-1)/size, 0
	for place, run := range r.Runs {
		whole := r.tokens(place) / size
		here := whole
		if p.pending[w][run] == 0 {
			here = min(whole, c.caches[w].resident(run))
		}
		blocks += here
		if here < whole {
			break
		}
	}
	return r.InputTokens - min(blocks, most)*size
}

func (p *kv) Pick(_ time.Duration, r *Request) Choice {
	l := lowest{random: p.random}
	for w := range p.workers {
		p.miss[w] = p.uncached(w, r)
		weight := p.cfg.PrefillWeight + p.cfg.StallWeight*float64(p.running(w))
		p.costs[w] = weight*p.prefill(p.miss[w]) + p.prefill(p.queued(w)) + p.cfg.DecodeWeight*p.decode(w, p.miss[w])
		l.offer(w, p.costs[w])
	}
	if p.cfg.Temperature > 0 {
		l.best = p.draw()
	}
	return Choice{Worker: l.best, Uncached: p.miss[l.best]}
}

// running is how many sequences generate on a worker, or soon will.
func (p *kv) running(w int) int {
	return p.workers[w].report.Decoding + p.workers[w].report.Waiting + len(p.workers[w].bookings)
}

// decode is the decode term of a worker's cost, in ms.
func (p *kv) decode(w int, miss int) float64 {
	if p.cfg.DecodeWeight == 0 {
		return 0
	}
	size := float64(p.cluster.Config.BlockTokens)
	steps := p.output.sum / p.output.n
	used := float64(p.workers[w].report.Used) + float64(p.workers[w].decode)/size
	with := p.decodeStep(used + (float64(miss)+steps)/size)
	switch p.cfg.Decode {
	case Own:
		return steps * with
	case Others:
		return steps * (with - p.decodeStep(used)) * float64(p.running(w))
	}
	return with
}

// decodeStep is the time of a step that only generates, in ms.
func (p *kv) decodeStep(used float64) float64 {
	return p.step(timing.Step{Decoding: 1, PoolUsed: min(1, used/float64(p.cluster.Config.PoolBlocks))})
}

// draw picks a worker at random, cheap ones rather than dear ones.
func (p *kv) draw() int {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, c := range p.costs {
		lo, hi = min(lo, c), max(hi, c)
	}
	if hi == lo {
		return p.random.IntN(len(p.costs))
	}
	sum := 0.0
	for _, c := range p.costs {
		sum += math.Exp(-(c - lo) / ((hi - lo) * p.cfg.Temperature))
	}
	at := p.random.Float64() * sum
	for w, c := range p.costs {
		if at -= math.Exp(-(c - lo) / ((hi - lo) * p.cfg.Temperature)); at < 0 {
			return w
		}
	}
	return len(p.costs) - 1
}

func (p *kv) Booked(b Booking) {
	p.ledger.Booked(b)
	p.pending[b.Worker].add(b.Request)
}

func (p *kv) FirstToken(b Booking) { p.pending[b.Worker].remove(b.Request) }

func (p *kv) Ended(b Booking) {
	p.output.sum += float64(b.Request.OutputTokens)
	p.output.n++
}
