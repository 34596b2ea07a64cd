package route

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// model is what the workers serve.
const model = "replayed"

// kv drives the product's own router, as a processor does: with the workers' events and
// reports, the speeds that a worker learns from its passes, and the course of each request.
type kv struct {
	router  *router.Router
	cluster *Cluster
	self    int // processor
	chains  *chains
	now     time.Duration
	prompt  []token          // of the request that is picked for
	choices []*router.Choice // by request; nil: not this processor's, or over
	shared  *router.Shared   // of the last booking
	speeds  []*speedometer   // by worker
}

var (
	_ listener = (*kv)(nil)
	_ preparer = (*kv)(nil)
)

func newKV(c *Cluster, processor int, random *rand.Rand, cfg KVConfig) (Policy, error) {
	if c.chains == nil {
		c.chains = newChains(c)
	}
	p := &kv{cluster: c, self: processor, chains: c.chains, choices: make([]*router.Choice, len(c.Trace.Requests))}
	product := router.DefaultConfig()
	product.PrefillWeight, product.DecodeWeight, product.StallWeight = cfg.PrefillWeight, cfg.DecodeWeight, cfg.StallWeight
	product.Temperature, product.PendingCredit = cfg.Temperature, cfg.PendingCredit
	var err error
	p.router, err = router.New(product, router.Options{
		Self: processorID(processor), Random: random, Now: func() time.Time { return clock(p.now) }, Share: p.share,
	})
	if err != nil {
		return nil, err
	}
	for w := range c.Config.Workers {
		worker := router.Worker{ID: workerID(w), Model: model, BlockTokens: c.Config.BlockTokens, PoolBlocks: c.Config.PoolBlocks, Events: true}
		if err := p.router.Add(worker); err != nil {
			return nil, err
		}
		p.router.Attach(worker.ID)
		p.speeds = append(p.speeds, newSpeedometer(&c.Config, cfg.Speeds))
	}
	return p, nil
}

func processorID(i int) router.ProcessorID {
	return router.ProcessorID{Name: "processor-" + strconv.Itoa(i), Incarnation: "1"}
}

func workerID(i int) router.WorkerID {
	return router.WorkerID{Name: strconv.Itoa(i), Incarnation: "1"}
}

// share keeps what the other processors are told with the booking.
func (p *kv) share(s router.Shared) {
	if s.Kind == router.SharedBooked && p.cluster.Config.Processors > 1 {
		s.Chain = slices.Clone(s.Chain)
		p.shared = &s
	}
}

// prepare makes up the prompt, which a processor has.
func (p *kv) prepare(r *Request) { p.prompt = p.chains.tokens(r) }

func (p *kv) Pick(now time.Duration, r *Request) Choice {
	p.now = now
	choice, err := p.router.Pick(router.Request{Model: model, Tokens: p.prompt}, func(*router.Choice) bool { return true })
	if err != nil {
		return Choice{Worker: -1} // every worker is attached, and every request fits
	}
	p.choices[r.index] = &choice
	w, err := strconv.Atoi(choice.Worker.Name)
	if err != nil {
		panic(fmt.Sprintf("worker %q has a name that was not given", choice.Worker.Name))
	}
	return Choice{Worker: w, Uncached: r.InputTokens - choice.CachedTokens, note: p.shared}
}

func (p *kv) Booked(b Booking) {
	if b.Processor != p.self { // one's own is booked as it is picked
		p.foreign(b, router.SharedBooked)
	}
}

func (p *kv) FirstToken(b Booking) {
	if b.Processor != p.self {
		p.foreign(b, router.SharedComputed)
		return
	}
	p.router.Computed(p.choices[b.Request.index])
}

func (p *kv) Ended(b Booking) {
	if b.Processor != p.self {
		p.foreign(b, router.SharedEnded)
		return
	}
	p.router.Ended(p.choices[b.Request.index], b.Request.OutputTokens)
	p.choices[b.Request.index] = nil
}

func (p *kv) foreign(b Booking, kind router.SharedKind) {
	s := *b.note.(*router.Shared)
	if s.Kind = kind; kind != router.SharedBooked {
		s.Chain = nil
	}
	p.router.Foreign(processorID(b.Processor), s)
}

func (p *kv) Report(now time.Duration, worker int, r Report) {
	p.now = now
	report := router.Report{PrefillTokens: r.Prefill, Running: r.Decoding + r.Begun, DecodeTokens: r.Decode + r.BegunTokens, Speed: p.speeds[worker].speed(now, r)}
	for i, n := range r.AcceptedOf {
		report.Booked = append(report.Booked, router.Counted{Processor: processorID(i), Booking: n})
	}
	p.router.Report(workerID(worker), report)
}

func (p *kv) listen(worker int) watcher { return &events{p, workerID(worker)} }

// events passes a worker's events to the router.
type events struct {
	kv *kv
	id router.WorkerID
}

func (e *events) stored(run int32, from, to int) {
	chain, parent := e.kv.chains.of(run, from, to)
	e.kv.router.Stored(e.id, prefix.Device, parent, chain)
}

func (e *events) removed(run int32, from, to int) {
	chain, _ := e.kv.chains.of(run, from, to)
	e.kv.router.Removed(e.id, prefix.Device, chain)
}
