package route

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
)

// exact is the kv policy with the timing model itself in place of what workers learn of their
// speed, and with the forms of the decode term that were tried.
type exact struct {
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

func newExact(c *Cluster, random *rand.Rand, cfg KVConfig) Policy {
	p := &exact{
		ledger: newLedger(c.Config.Workers), cfg: cfg, cluster: c, random: random, pending: make([]holdings, c.Config.Workers),
		costs: make([]float64, c.Config.Workers), miss: make([]int, c.Config.Workers), output: mean{256, 1},
	}
	for w := range p.pending {
		p.pending[w] = make(holdings, c.Trace.Runs)
	}
	return p
}

func (p *exact) step(s timing.Step) float64 { return float64(p.cluster.Config.Timing.Step(s)) / 1e6 }

// prefill is the time to compute so many tokens, in ms.
func (p *exact) prefill(tokens int) float64 {
	most := p.cluster.Config.PassTokens
	return float64(tokens/most)*p.step(timing.Step{PromptTokens: most}) + p.step(timing.Step{PromptTokens: tokens % most})
}

// uncached are the tokens that are to be computed on a worker.
func (p *exact) uncached(w int, r *Request) int {
	size, most := p.cluster.Config.BlockTokens, (r.InputTokens-1)/p.cluster.Config.BlockTokens
	held := p.cluster.Resident(w, r)
	if p.cfg.PendingCredit == 0 {
		return r.InputTokens - held*size
	}
	blocks := 0
	for place, run := range r.Runs {
		whole := r.tokens(place) / size
		here := whole
		if p.pending[w][run] == 0 {
			here = min(whole, p.cluster.caches[w].resident(run))
		}
		blocks += here
		if here < whole {
			break
		}
	}
	pending := min(blocks, most) - held
	return r.InputTokens - held*size - int(p.cfg.PendingCredit*float64(pending*size))
}

func (p *exact) Pick(_ time.Duration, r *Request) Choice {
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
func (p *exact) running(w int) int {
	return p.workers[w].report.Decoding + p.workers[w].report.Waiting + len(p.workers[w].bookings)
}

// decode is the decode term of a worker's cost, in ms.
func (p *exact) decode(w int, miss int) float64 {
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
func (p *exact) decodeStep(used float64) float64 {
	return p.step(timing.Step{Decoding: 1, PoolUsed: min(1, used/float64(p.cluster.Config.PoolBlocks))})
}

// draw picks a worker at random, cheap ones rather than dear ones.
func (p *exact) draw() int {
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

func (p *exact) Booked(b Booking) {
	p.ledger.Booked(b)
	p.pending[b.Worker].add(b.Request)
}

func (p *exact) FirstToken(b Booking) { p.pending[b.Worker].remove(b.Request) }

func (p *exact) Ended(b Booking) {
	p.output.sum += float64(b.Request.OutputTokens)
	p.output.n++
}
