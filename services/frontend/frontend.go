// Package frontend serves clients: OpenAI ones over HTTP, through grpc-gateway, and gRPC
// ones. Every request becomes one generation.v1.Request for each of its prompts, which the
// processor answers with one choice or more; what comes back becomes chunks, events or one
// answer. It knows no tokens, no templates and no workers.
//
// The HTTP side has two layers. The edge reads and bounds the request, owns the connection
// and writes the answer; the generated gateway between them calls this process's own
// Frontend service, without a socket.
//
// New builds the service from its dependencies, Open builds those from a configuration,
// Run serves until its context ends and owns all goroutines.
package frontend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/rpc/local"
	"github.com/switchyard-llm/switchyard/libs/run"
	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// Registration is the frontend's entry among the members.
type Registration interface {
	// Run keeps the entry alive until ctx ends, then takes it away.
	Run(ctx context.Context) error
}

// Deps are what the service works with.
type Deps struct {
	// Processor answers; over a connection, or in this process.
	Processor processorv1.ProcessorClient
	// HTTP is where OpenAI clients connect. Run closes it.
	HTTP net.Listener
	// GRPC is where gRPC callers connect, and Server what serves them. Both nil: nothing does.
	GRPC   net.Listener
	Server *rpc.Server
	// Instance is this process among the members. Nil: it is none, and reports nothing.
	Instance *instancev1.Instance
	// Register announces the instance once the servers run. Nil: it is not announced.
	Register func(ctx context.Context, instance *instancev1.Instance) (Registration, error)
	// Planner gets a report each second. Nil: nobody does.
	Planner plannerv1.PlannerClient
	// Metrics is served at /metrics. Nil: that path does not exist here.
	Metrics http.Handler
	// Logger, Tracer and Meter observe. Nil: they do not.
	Logger *slog.Logger
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
}

// Frontend is the service.
type Frontend struct {
	cfg    Config
	deps   Deps
	server *server
	own    *local.Conn // from the gateway to service
	edge   *edge
	ready  atomic.Bool // a model was seen, and no drain has begun
}

// New builds the service. It starts nothing.
func New(cfg Config, deps Deps) (*Frontend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("frontend: %w", err)
	}
	if deps.Processor == nil {
		return nil, errors.New("frontend: no processor, want a client")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Tracer == nil {
		deps.Tracer = tracenoop.NewTracerProvider()
	}
	if deps.Meter == nil {
		deps.Meter = metricnoop.NewMeterProvider()
	}
	observe, err := newInstruments(deps.Meter)
	if err != nil {
		return nil, fmt.Errorf("frontend: %w", err)
	}
	f := &Frontend{cfg: cfg, deps: deps}
	f.server = &server{
		cfg: cfg, processor: deps.Processor, log: deps.Logger,
		tracer: deps.Tracer.Tracer(scope), observe: observe, traffic: &traffic{},
	}
	f.own = local.New(local.Options{Unary: rpc.UnaryInterceptor(deps.Logger), Stream: rpc.StreamInterceptor(deps.Logger)})
	frontendv1.RegisterFrontendServer(f.own, f.server)
	if deps.Server != nil {
		frontendv1.RegisterFrontendServer(deps.Server, f.server)
	}
	if f.edge, err = newEdge(f); err != nil {
		return nil, fmt.Errorf("frontend: %w", err)
	}
	return f, nil
}

// Handler is the HTTP side by itself, for a server that the caller runs. It serves until
// Close.
func (f *Frontend) Handler() http.Handler { return f.edge }

// Close ends the requests that Handler still serves, and waits for them.
func (f *Frontend) Close() { f.own.Close() }

// Run serves until ctx ends. Then health says "not ready", no new connections are taken,
// running requests have the time drain, and what is left is cancelled.
func (f *Frontend) Run(ctx context.Context) error {
	if f.deps.HTTP == nil {
		return errors.New("frontend: no HTTP listener")
	}
	defer f.own.Close()
	g, ctx := run.NewGroup(ctx)
	g.Go("http", f.serveHTTP)
	g.Go("readiness", f.watchReadiness)
	if f.deps.Server != nil && f.deps.GRPC != nil {
		g.Go("grpc", func(ctx context.Context) error { return f.deps.Server.Serve(ctx, f.deps.GRPC, f.cfg.Drain) })
	}
	if f.deps.Planner != nil && f.deps.Instance != nil {
		g.Go("reports", f.report)
	}
	if f.deps.Register != nil && f.deps.Instance != nil {
		g.Go("registration", f.register)
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("frontend: %w", err)
	}
	return nil
}

func (f *Frontend) register(ctx context.Context) error {
	registration, err := f.deps.Register(ctx, f.deps.Instance)
	if err != nil {
		return err
	}
	return registration.Run(ctx)
}

// readinessInterval is how often a frontend that is not ready yet asks for models.
const readinessInterval = 50 * time.Millisecond

// watchReadiness waits until the processor serves a model. From then on the frontend is
// ready, whatever becomes of the processor: a client is better told by the error of its
// request than by a frontend that seems dead.
func (f *Frontend) watchReadiness(ctx context.Context) error {
	tick := time.NewTicker(readinessInterval)
	defer tick.Stop()
	for {
		if f.hasModel(ctx) {
			f.ready.Store(true)
			f.deps.Logger.InfoContext(ctx, "ready")
			<-ctx.Done()
			f.ready.Store(false)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *Frontend) hasModel(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	models, err := f.deps.Processor.Models(ctx, &processorv1.ModelsRequest{})
	return err == nil && len(models.GetModels()) > 0
}

// Ready waits until a model is served.
func (f *Frontend) Ready(ctx context.Context) error {
	tick := time.NewTicker(readinessInterval)
	defer tick.Stop()
	for !f.ready.Load() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
