// Package probe measures the link from each prefill worker's memory once, when the worker joins:
// how long a tiny read takes, and a large one. It reads memory that is there for that.
//
// It disturbs nobody: it reads from one prefill worker at a time, for about two seconds at most,
// and less and less often where that fails. It does not keep what it finds, and knows no prompts.
//
// Run does all the work and starts no goroutine.
package probe

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/libs/worker"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

const (
	// lookEvery is how often the members are looked at.
	lookEvery = 250 * time.Millisecond
	// probeWithin bounds one probe.
	probeWithin = 2 * time.Second
	// A probe that failed is repeated after retryAtLeast, and each time it fails again after twice
	// as long, up to retryAtMost.
	retryAtLeast = time.Second
	retryAtMost  = 5 * time.Minute
)

// Links are told what is found.
type Links interface {
	// Reached says that a new life of a prefill worker was met, and by what.
	Reached(now time.Time, prefillWorker string, class link.Class)
	// Probed says what its link is.
	Probed(now time.Time, prefillWorker string, e link.Estimate)
	// Left says that the prefill worker, in the life that was reached, is there no more.
	Left(prefillWorker string)
}

// Deps are what a prober works with.
type Deps struct {
	Worker *worker.Worker
	// PrefillWorkers are the live ones whose blocks the worker could take.
	PrefillWorkers func() []*instancev1.Instance
	// Client reaches the one at an address.
	Client func(address string) (prefillworkerv1.PrefillWorkerClient, error)
	Links  Links
	Logger *slog.Logger
}

// Prober measures the links of one decode worker. Its state belongs to Run.
type Prober struct {
	deps  Deps
	peers map[string]*peer // by name
	// doubtful is a read whose end could not be told: it may still write into the worker's probe
	// memory, so nothing else is read there. Nil: there is none.
	doubtful nixl.Transfer
}

// peer is a life of a prefill worker.
type peer struct {
	incarnation string
	reached     bool
	probed      bool
	bar         time.Duration // after the last failure; 0: none has failed
	barred      time.Time     // until when
}

// New makes a prober.
func New(deps Deps) *Prober { return &Prober{deps: deps, peers: make(map[string]*peer)} }

// Run measures until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		p.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look forgets who has left and probes who is due.
func (p *Prober) look(ctx context.Context) {
	live := p.deps.PrefillWorkers()
	p.forget(live)
	for _, i := range live {
		of := p.peers[i.GetId()]
		if of == nil {
			of = &peer{incarnation: i.GetIncarnation()}
			p.peers[i.GetId()] = of
		}
		if !of.probed && !time.Now().Before(of.barred) && p.quiet() {
			p.try(ctx, i, of)
		}
	}
}

// forget drops the lives that are over.
func (p *Prober) forget(live []*instancev1.Instance) {
	incarnations := make(map[string]string, len(live))
	for _, i := range live {
		incarnations[i.GetId()] = i.GetIncarnation()
	}
	for id, of := range p.peers {
		if incarnation, lives := incarnations[id]; !lives || incarnation != of.incarnation {
			delete(p.peers, id)
			p.deps.Links.Left(id)
		}
	}
}

// quiet says that no read of an earlier probe may still move bytes.
func (p *Prober) quiet() bool {
	if p.doubtful != nil && p.doubtful.Release() == nil {
		p.doubtful = nil
	}
	return p.doubtful == nil
}

// try probes, and says so the first time that it comes to nothing.
func (p *Prober) try(ctx context.Context, i *instancev1.Instance, of *peer) {
	bounded, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	e, err := p.probe(bounded, i, of)
	switch {
	case err == nil:
		of.probed = true
		p.deps.Links.Probed(time.Now(), i.GetId(), e)
		p.deps.Logger.DebugContext(ctx, "a link was measured", "peer", i.GetId(), "bytes_per_second", e.BytesPerSecond, "latency", e.Latency)
		return
	case ctx.Err() != nil: // nobody wants to know any more
		return
	case of.bar == 0:
		p.deps.Logger.InfoContext(ctx, "the link from a prefill worker could not be measured; it is taken for one of its class", "peer", i.GetId(), "error", err)
	}
	of.bar = min(max(2*of.bar, retryAtLeast), retryAtMost)
	of.barred = time.Now().Add(of.bar)
}

// probe meets the prefill worker, asks it for leave, and reads.
func (p *Prober) probe(ctx context.Context, i *instancev1.Instance, of *peer) (link.Estimate, error) {
	meant := nixl.PeerID{Name: i.GetId(), Incarnation: i.GetIncarnation()}
	met, err := p.deps.Worker.Meet(ctx, i)
	if err == nil && met != meant {
		err = fmt.Errorf("its metadata is of %s", met)
	}
	if err != nil {
		return link.Estimate{}, err
	}
	if !of.reached {
		of.reached = true
		p.deps.Links.Reached(time.Now(), i.GetId(), p.deps.Worker.LinkClass(met, i))
	}
	client, err := p.deps.Client(i.GetAddress())
	if err != nil {
		return link.Estimate{}, err
	}
	self := p.deps.Worker.ID()
	leave, err := client.Probe(ctx, &prefillworkerv1.ProbeRequest{
		PrefillIncarnation: meant.Incarnation, DecodeWorker: self.Name, DecodeIncarnation: self.Incarnation,
	})
	if err != nil {
		return link.Estimate{}, fmt.Errorf("ask for leave: %w", err)
	}
	r := reader{p: p, peer: met, grant: leave.GetGrant(), bytes: int(min(leave.GetBytes(), worker.ProbeBytes))}
	return r.measure(ctx)
}
