// Package decodeworker holds running sequences: it takes them from processors, decides
// where each prompt is computed, coordinates the hand-off, and decodes.
//
// New builds the service from its dependencies, Open builds those from a configuration,
// Run serves until its context ends and owns all goroutines.
package decodeworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
	"github.com/switchyard-llm/switchyard/services/decodeworker/handoff"
	"github.com/switchyard-llm/switchyard/services/decodeworker/probe"
	"github.com/switchyard-llm/switchyard/services/decodeworker/speed"
)

// Queue is the prefill queue as a decode worker sees it.
type Queue interface {
	handoff.Queue
	// Depth is how many jobs wait and are in work, and for how long.
	Depth(ctx context.Context) (prefillqueue.Depth, error)
}

// Registration is the worker's entry among the members.
type Registration interface {
	// Run keeps the entry alive until ctx ends, then takes it away.
	Run(ctx context.Context) error
	// Update changes the entry, and waits until Run has written it.
	Update(ctx context.Context, change func(*instancev1.Instance)) error
}

// Deps are what the service works with.
type Deps struct {
	Worker   *worker.Worker
	Instance *instancev1.Instance // complete: address, card, transfer metadata
	Listener net.Listener
	Server   *rpc.Server
	Queue    Queue
	// PrefillWorkers are the live prefill workers whose blocks this worker could take.
	PrefillWorkers func() []*instancev1.Instance
	// PrefillWorker reaches the one at an address. Nil, which only the push style can do with:
	// no link is probed.
	PrefillWorker func(address string) (prefillworkerv1.PrefillWorkerClient, error)
	// Policy is the one in force.
	Policy func() disagg.Policy
	// Abort asks a prefill worker for its word that it is quiet.
	Abort func(ctx context.Context, address string, r *prefillworkerv1.AbortRequest) error
	// Died says whether the process that served at an address has ended. Nil: nobody knows.
	Died func(ctx context.Context, address string) bool
	// Register announces the instance; it is called once the server listens.
	Register func(ctx context.Context, instance *instancev1.Instance) (Registration, error)
	// Planner gets a report each second. Nil: nobody does.
	Planner plannerv1.PlannerClient
	Logger  *slog.Logger
	Tracer  trace.TracerProvider
	Meter   metric.MeterProvider
}

// DecodeWorker is the service.
type DecodeWorker struct {
	decodeworkerv1.UnimplementedDecodeWorkerServer

	cfg     Config
	deps    Deps
	log     *slog.Logger
	tracer  trace.Tracer
	handoff *handoff.Coordinator

	speeds  *speed.Learner
	probes  *probe.Prober // nil: no link is probed
	metrics metrics

	mu     sync.Mutex // guards the counters
	counts placements
	phases phases

	trial         chan struct{} // capacity 1: the place of the one sequence on trial
	proceedWithin time.Duration // changed by tests alone

	attached attachments
	intake   *intake
	leaving  chan struct{} // closed when the server stops: streams end
}

// leaveWithin is how long streams may take to end once no sequence runs, and how long
// etcd may take to hear that the worker drains.
const leaveWithin = time.Second

// New builds the service and registers it with the server.
func New(cfg Config, deps Deps) (*DecodeWorker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("decode worker: %w", err)
	}
	d := &DecodeWorker{
		cfg: cfg, deps: deps, log: deps.Logger,
		tracer:  deps.Tracer.Tracer("switchyard/decodeworker"),
		counts:  placements{reasons: make(map[string]uint64)},
		speeds:  speed.New(start(cfg, deps)),
		intake:  newIntake(),
		leaving: make(chan struct{}),
		trial:   make(chan struct{}, 1), proceedWithin: proceedWithin,
	}
	if err := d.observe(deps.Meter); err != nil {
		return nil, fmt.Errorf("decode worker: %w", err)
	}
	var err error
	if d.handoff, err = handoff.New(cfg.HandOff, handoff.Deps{
		Worker: deps.Worker, Style: cfg.Engine.Style, Queue: deps.Queue,
		ReadAtLeast: func() int {
			s := d.speeds.Speeds(time.Now())
			return s.ReadAtLeast(deps.Worker.RowBytes())
		},
		ComputeTime: func(tokens int) time.Duration {
			s := d.speeds.Speeds(time.Now())
			return s.ComputeTime(tokens, cfg.Pool.StepTokens)
		},
		PrefillWorkers: deps.PrefillWorkers, Abort: deps.Abort, Died: deps.Died, Client: deps.PrefillWorker,
		Logger: deps.Logger, Tracer: deps.Tracer,
	}); err != nil {
		return nil, fmt.Errorf("decode worker: %w", err)
	}
	if cfg.Engine.Style != worker.Push {
		d.deps.Queue = noQueue{d.handoff.InFlight}
	}
	if deps.PrefillWorker != nil {
		d.probes = probe.New(probe.Deps{
			Worker: deps.Worker, PrefillWorkers: deps.PrefillWorkers, Client: deps.PrefillWorker, Links: d.speeds, Logger: deps.Logger,
		})
	}
	decodeworkerv1.RegisterDecodeWorkerServer(deps.Server, d)
	return d, nil
}

// start is what is believed of the speeds before anything was measured.
func start(cfg Config, deps Deps) speed.Start {
	s := speed.DefaultStart(deps.Worker.Layout().BlockTokens, cfg.Pool.StepTokens)
	l := cfg.LinkClass().Start()
	s.LinkBytesPerSecond, s.LinkLatency = l.BytesPerSecond, l.Latency
	if p := deps.Worker.Card().Pace; p != (engine.Pace{}) {
		s.LocalToken, s.Step, s.StepSequence, s.StepToken, s.Told = p.Token, p.Step, p.Sequence, p.Context, true
	}
	return s
}

// Run serves until ctx ends: it then says that it drains, takes no new sequences, lets
// those that run finish for at most the drain time, and leaves.
func (d *DecodeWorker) Run(ctx context.Context) error {
	registration, err := d.deps.Register(ctx, d.deps.Instance)
	if err != nil {
		return fmt.Errorf("decode worker: register: %w", err)
	}
	// The engine outlives the server: running sequences finish while the server drains.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, engine := run.NewGroup(inner)
	g.Go("engine", d.deps.Worker.Run)
	g.Go("hand-off", d.handoff.Run)
	// So do the entry and the server: prefill workers look for the one and claim at the
	// other until the last sequence has its prompt.
	front, serving := run.NewGroup(engine)
	leave, cancel := context.WithCancel(serving)
	defer cancel()
	front.Go("registration", func(context.Context) error { return registration.Run(leave) })
	front.Go("server", func(context.Context) error { return d.deps.Server.Serve(leave, d.deps.Listener, leaveWithin) })
	front.Go("reports", func(context.Context) error { return d.reportLoop(leave) })
	front.Go("probes", func(serving context.Context) error { return d.probeLoop(ctx, serving) })
	front.Go("drain", func(context.Context) error {
		d.drain(ctx, serving, registration)
		close(d.leaving)
		cancel()
		return nil
	})
	err = front.Wait()
	stop()
	if err = errors.Join(err, g.Wait()); err != nil {
		return fmt.Errorf("decode worker: %w", err)
	}
	return nil
}

// drain returns when it is time to leave: after ctx has ended, once no sequence runs or
// the drain time is over; at once when serving ends, which says that a part has failed.
func (d *DecodeWorker) drain(ctx, serving context.Context, registration Registration) {
	select {
	case <-ctx.Done():
	case <-serving.Done():
		d.intake.close()
		return
	}
	idle := d.intake.close()
	d.deps.Server.SetServing("", false)
	d.deps.Server.SetServing(decodeworkerv1.DecodeWorker_ServiceDesc.ServiceName, false)
	timer := time.NewTimer(d.cfg.Drain)
	defer timer.Stop()
	told, cancel := context.WithTimeout(serving, leaveWithin)
	defer cancel()
	if err := registration.Update(told, func(i *instancev1.Instance) { i.Draining = true }); err != nil {
		d.log.Warn("could not say that this worker drains; it refuses sequences all the same", "error", err)
	}
	select {
	case <-idle:
	case <-timer.C:
		d.log.Warn("the drain time is over; the sequences that still run go to other workers")
	case <-serving.Done():
	}
}

// prefillWorkers counts those that could do a job: the live ones that were not fenced.
func (d *DecodeWorker) prefillWorkers() (n int) {
	for _, i := range d.deps.PrefillWorkers() {
		if d.handoff.Usable(i) {
			n++
		}
	}
	return n
}

// Describe implements decodeworkerv1.DecodeWorkerServer.
func (d *DecodeWorker) Describe(context.Context, *decodeworkerv1.DescribeRequest) (*decodeworkerv1.DescribeResponse, error) {
	w := d.deps.Worker
	return &decodeworkerv1.DescribeResponse{
		Instance: d.deps.Instance, Pool: w.PoolReport(), Transport: w.TransportReport(d.cfg.Transport),
		Load: w.LoadReport(), HandOff: d.handOffReport(), Links: d.linkReport(),
	}, nil
}

// ClaimPrefill implements decodeworkerv1.DecodeWorkerServer.
func (d *DecodeWorker) ClaimPrefill(ctx context.Context, r *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error) {
	return d.handoff.Claim(ctx, r)
}

// RenewClaim implements decodeworkerv1.DecodeWorkerServer.
func (d *DecodeWorker) RenewClaim(ctx context.Context, r *decodeworkerv1.RenewClaimRequest) (*decodeworkerv1.RenewClaimResponse, error) {
	return d.handoff.Renew(ctx, r)
}

// AbandonClaim implements decodeworkerv1.DecodeWorkerServer.
func (d *DecodeWorker) AbandonClaim(ctx context.Context, r *decodeworkerv1.AbandonClaimRequest) (*decodeworkerv1.AbandonClaimResponse, error) {
	return d.handoff.Abandon(ctx, r)
}

// ReleasePrefix implements decodeworkerv1.DecodeWorkerServer.
func (d *DecodeWorker) ReleasePrefix(ctx context.Context, r *decodeworkerv1.ReleasePrefixRequest) (*decodeworkerv1.ReleasePrefixResponse, error) {
	return d.handoff.ReleasePrefix(ctx, r)
}

// reportLoop tells the planner each second; a planner that does not answer costs nothing.
func (d *DecodeWorker) reportLoop(ctx context.Context) error {
	return worker.ReportLoop(ctx, d.deps.Worker, d.deps.Planner, d.deps.Instance, func(r *plannerv1.WorkerReport) {
		d.mu.Lock()
		defer d.mu.Unlock()
		r.Local, r.Remote, r.Fallback = d.counts.local, d.counts.remote, d.counts.fallback
	})
}
