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

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
	"github.com/switchyard-llm/switchyard/services/decodeworker/handoff"
)

// Queue is the prefill queue as a decode worker sees it.
type Queue interface {
	handoff.Queue
	// Waiting is how many jobs no prefill worker has taken yet.
	Waiting(ctx context.Context) (int, error)
}

// Registration is the worker's entry among the members.
type Registration interface {
	// Run keeps the entry alive until ctx ends, then takes it away.
	Run(ctx context.Context) error
}

// Deps are what the service works with.
type Deps struct {
	Worker   *worker.Worker
	Instance *instancev1.Instance // complete: address, card, transfer metadata
	Listener net.Listener
	Server   *rpc.Server
	Queue    Queue
	// PrefillWorkers is how many live prefill workers serve the model.
	PrefillWorkers func() int
	// Policy is the one in force.
	Policy func() disagg.Policy
	// Abort asks a prefill worker for its word that it is quiet.
	Abort func(ctx context.Context, address string, r *prefillworkerv1.AbortRequest) error
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

	mu     sync.Mutex // guards the counters
	counts placements

	attached attachments
	draining chan struct{} // closed when Run's context ends: no new sequences
}

// New builds the service and registers it with the server.
func New(cfg Config, deps Deps) (*DecodeWorker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("decode worker: %w", err)
	}
	coordinator, err := handoff.New(cfg.HandOff, handoff.Deps{
		Worker: deps.Worker, Queue: deps.Queue, Abort: deps.Abort, Logger: deps.Logger, Tracer: deps.Tracer,
	})
	if err != nil {
		return nil, fmt.Errorf("decode worker: %w", err)
	}
	d := &DecodeWorker{
		cfg: cfg, deps: deps, log: deps.Logger, handoff: coordinator,
		tracer:   deps.Tracer.Tracer("switchyard/decodeworker"),
		counts:   placements{reasons: make(map[string]uint64)},
		draining: make(chan struct{}),
	}
	if err := d.observe(deps.Meter); err != nil {
		return nil, fmt.Errorf("decode worker: %w", err)
	}
	decodeworkerv1.RegisterDecodeWorkerServer(deps.Server, d)
	return d, nil
}

// Run serves until ctx ends: it then takes no new work, lets what runs finish for at most
// the drain time, and leaves.
func (d *DecodeWorker) Run(ctx context.Context) error {
	registration, err := d.deps.Register(ctx, d.deps.Instance)
	if err != nil {
		return fmt.Errorf("decode worker: register: %w", err)
	}
	defer context.AfterFunc(ctx, func() { close(d.draining) })()
	// The engine outlives the server: running sequences finish while the server drains.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, engine := run.NewGroup(inner)
	g.Go("engine", d.deps.Worker.Run)
	g.Go("hand-off", d.handoff.Run)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(engine, cancel)() // nothing is served without an engine
	front, ctx := run.NewGroup(ctx)
	front.Go("registration", registration.Run)
	front.Go("server", func(ctx context.Context) error {
		return d.deps.Server.Serve(ctx, d.deps.Listener, d.cfg.Drain)
	})
	front.Go("reports", d.reportLoop)
	err = front.Wait()
	stop()
	if err = errors.Join(err, g.Wait()); err != nil {
		return fmt.Errorf("decode worker: %w", err)
	}
	return nil
}

// Describe implements decodeworkerv1.DecodeWorkerServer.
func (d *DecodeWorker) Describe(context.Context, *decodeworkerv1.DescribeRequest) (*decodeworkerv1.DescribeResponse, error) {
	w := d.deps.Worker
	return &decodeworkerv1.DescribeResponse{
		Instance: d.deps.Instance, Pool: w.PoolReport(), Transport: w.TransportReport(d.cfg.Transport),
		Load: w.LoadReport(), HandOff: d.handOffReport(),
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
