// Package prefillworker computes prompts for decode workers. How depends on its style:
//
//   - push: it takes jobs from the prefill queue when it has room, claims each at its decode
//     worker, computes what both lack, writes the blocks, and tells the first token.
//   - pull: a decode worker calls Prefill; the prompt is computed and held for the caller to
//     read, until its Release, its death or the end of the lease.
//   - rendezvous: a decode worker calls Prefill with a ticket, which is used as in push.
//
// New builds the service from its dependencies, Open builds those from a configuration,
// Run serves until its context ends and owns all goroutines.
package prefillworker

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
	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/worker"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// Queue is where jobs come from.
type Queue interface {
	// Pull waits for jobs and takes at most n.
	Pull(ctx context.Context, n int) ([]*prefillqueue.Job, error)
	// TryPull takes at most n that are there, and does not wait.
	TryPull(ctx context.Context, n int) ([]*prefillqueue.Job, error)
}

// Registration is the worker's entry among the members.
type Registration interface {
	// Run keeps the entry alive until ctx ends, then takes it away.
	Run(ctx context.Context) error
}

// Members are the decode workers as etcd names them.
type Members interface {
	// Find answers the instance of a decode worker; known is false while the members
	// cannot be trusted to be complete.
	Find(id string) (instance *instancev1.Instance, known bool)
}

// Deps are what the service works with.
type Deps struct {
	Worker        *worker.Worker
	Instance      *instancev1.Instance // complete: address, card, transfer metadata
	Listener      net.Listener
	Server        *rpc.Server
	Queue         Queue
	Kept          Queue // the jobs that are kept for this worker; nil: there are none
	DecodeWorkers Members
	// Connect gives the connection to a decode worker's address.
	Connect func(address string) (*grpc.ClientConn, error)
	// Register announces the instance; it is called once the server listens.
	Register func(ctx context.Context, instance *instancev1.Instance) (Registration, error)
	// Planner gets a report each second. Nil: nobody does.
	Planner plannerv1.PlannerClient
	Logger  *slog.Logger
	Tracer  trace.TracerProvider
	Meter   metric.MeterProvider
}

// PrefillWorker is the service.
type PrefillWorker struct {
	prefillworkerv1.UnimplementedPrefillWorkerServer

	cfg    Config
	deps   Deps
	log    *slog.Logger
	tracer trace.Tracer

	mu        sync.Mutex // guards all below
	attempts  map[attemptKey]*attempt
	tickets   map[ticketKey]*attempt // those that wait for an answer to their note
	lingering []lingering
	count     uint64
	report    *prefillworkerv1.JobReport

	calls  calls // taken before mu where both are
	probes probes
}

// New builds the service and registers it with the server.
func New(cfg Config, deps Deps) (*PrefillWorker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("prefill worker: %w", err)
	}
	p := &PrefillWorker{
		cfg: cfg, deps: deps, log: deps.Logger, tracer: deps.Tracer.Tracer("switchyard/prefillworker"),
		attempts: make(map[attemptKey]*attempt), tickets: make(map[ticketKey]*attempt),
		report: &prefillworkerv1.JobReport{}, calls: newCalls(),
		probes: probes{leaves: make(map[nixl.PeerID]probeLeave)},
	}
	if err := p.observe(deps.Meter); err != nil {
		return nil, fmt.Errorf("prefill worker: %w", err)
	}
	prefillworkerv1.RegisterPrefillWorkerServer(deps.Server, p)
	return p, nil
}

// Run serves until ctx ends: it then takes no new jobs, finishes those in work for at most
// the drain time, and leaves.
func (p *PrefillWorker) Run(ctx context.Context) error {
	registration, err := p.deps.Register(ctx, p.deps.Instance)
	if err != nil {
		return fmt.Errorf("prefill worker: register: %w", err)
	}
	// What jobs in work need outlives the taking of jobs.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	back, engine := run.NewGroup(inner)
	back.Go("engine", p.deps.Worker.Run)
	back.Go("answers", p.receive)
	back.Go("attempts in doubt", p.lingerLoop)
	back.Go("server", func(ctx context.Context) error { return p.deps.Server.Serve(ctx, p.deps.Listener, time.Second) })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(engine, cancel)() // no job is taken without an engine
	front, ctx := run.NewGroup(ctx)
	front.Go("registration", registration.Run)
	front.Go("calls", func(ctx context.Context) error { return p.drainCalls(ctx, engine) })
	if p.cfg.Engine.Style == worker.Push {
		front.Go("jobs", func(ctx context.Context) error { return p.pull(ctx, engine) })
	}
	front.Go("reports", func(ctx context.Context) error {
		return worker.ReportLoop(ctx, p.deps.Worker, p.deps.Planner, p.deps.Instance, func(*plannerv1.WorkerReport) {})
	})
	err = front.Wait()
	stop()
	if err = errors.Join(err, back.Wait()); err != nil {
		return fmt.Errorf("prefill worker: %w", err)
	}
	return nil
}

// Describe implements prefillworkerv1.PrefillWorkerServer.
func (p *PrefillWorker) Describe(context.Context, *prefillworkerv1.DescribeRequest) (*prefillworkerv1.DescribeResponse, error) {
	w := p.deps.Worker
	return &prefillworkerv1.DescribeResponse{
		Instance: p.deps.Instance, Pool: w.PoolReport(), Transport: w.TransportReport(p.cfg.Transport),
		Load: w.LoadReport(), Jobs: p.jobReport(),
	}, nil
}

// errStyle answers the calls of a style that is not this worker's.
func errStyle() error {
	return rpc.FailedPrecondition("style", "not served in this worker's style")
}
