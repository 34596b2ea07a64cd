// Package processor turns a request into tokens, picks the decode worker, and turns the
// tokens that come back into text.
//
// New builds the service from its dependencies, Open builds those from a configuration,
// Run serves until its context ends and owns all goroutines. The processor calls only
// decode workers, and keeps nothing that outlives a request but what it remembers of
// their caches.
package processor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/kvevent"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor/prompt"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// Registration is the processor's entry among the members.
type Registration interface {
	// Run keeps the entry alive until ctx ends, then takes it away.
	Run(ctx context.Context) error
}

// Deps are what the service works with; all are required.
type Deps struct {
	Model    *Model
	Instance *instancev1.Instance // complete: id, incarnation, address, the model's name
	Listener net.Listener
	Server   *rpc.Server
	// Workers are the decode workers; whoever made them runs them.
	Workers Members
	// PrefillWorkers are those that a hint may name; as for Workers.
	PrefillWorkers Watcher
	// Processors are all processors of the model, and NATS carries what they tell each other of their bookings. Nil:
	// this one keeps its bookings to itself.
	Processors Watcher
	NATS       *nats.Conn
	// Weights is the live part of the router's configuration: it yields at once and after each change
	// until ctx ends. Nil: there is none.
	Weights func(ctx context.Context) iter.Seq[router.Weights]
	// Register announces the instance.
	Register func(ctx context.Context, instance *instancev1.Instance) (Registration, error)
	// Dial makes a connection to a worker's address; the processor closes it.
	Dial func(address string) (*grpc.ClientConn, error)
	// Died says whether the process that served at an address has ended. Nil: nobody knows, and
	// no death counts against a request.
	Died func(ctx context.Context, address string) bool
	// Bury sends a dead letter. Nil: they are only logged.
	Bury   func(ctx context.Context, letter *generationv1.DeadLetter) error
	Logger *slog.Logger
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
}

// Processor is the service.
type Processor struct {
	processorv1.UnimplementedProcessorServer

	cfg      Config
	deps     Deps
	log      *slog.Logger
	tracer   trace.Tracer
	metrics  *metrics
	builder  *prompt.Builder
	router   *router.Router
	workers  *workers
	exchange *exchange // nil: bookings are not shared
	// prefillEvents is of the prefill workers what workers.events is of the decode workers.
	prefillEvents *events
	admission     admission
}

var _ processorv1.ProcessorServer = (*Processor)(nil)

// New builds the service and registers it with the server.
func New(cfg Config, deps Deps) (*Processor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("processor: %w", err)
	}
	self := router.ProcessorID{Name: deps.Instance.GetId(), Incarnation: deps.Instance.GetIncarnation()}
	options := router.Options{Self: self, Random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), Now: time.Now}
	var shared *exchange
	if deps.NATS != nil && deps.Processors != nil {
		shared = newExchange(deps.NATS, deps.Model.Name, self, deps.Logger)
		options.Share = shared.share
	}
	picker, err := router.New(cfg.Router, options)
	if err != nil {
		return nil, fmt.Errorf("processor: %w", err)
	}
	if shared != nil {
		shared.router = picker
	}
	instruments, err := newMetrics(deps.Meter)
	if err != nil {
		return nil, fmt.Errorf("processor: metrics: %w", err)
	}
	p := &Processor{
		cfg: cfg, deps: deps, log: deps.Logger, tracer: deps.Tracer.Tracer("switchyard/processor"),
		metrics: instruments, router: picker, exchange: shared, admission: admission{max: cfg.MaxRequests},
		builder: prompt.New(prompt.Config{
			Tokenizer: deps.Model.Tokenizer, Template: deps.Model.Template, BOS: deps.Model.BOS, EOS: deps.Model.EOS,
			DefaultMaxTokens: cfg.DefaultMaxTokens,
		}),
	}
	p.workers = &workers{
		model: deps.Model.Name, name: deps.Instance.GetId(), incarnation: deps.Instance.GetIncarnation(),
		router: picker, members: deps.Workers, dial: deps.Dial, log: deps.Logger,
		peers: map[router.WorkerID]*peer{}, changed: make(chan struct{}),
	}
	if deps.NATS != nil {
		p.workers.events, err = newEvents(kvevent.DefaultFollowerConfig(kvevent.Decode, deps.Model.Name, 0), deps, picker)
		if err == nil {
			p.prefillEvents, err = newEvents(kvevent.DefaultFollowerConfig(kvevent.Prefill, deps.Model.Name, 0), deps, picker)
		}
		if err != nil {
			return nil, fmt.Errorf("processor: %w", err)
		}
	}
	processorv1.RegisterProcessorServer(deps.Server, p)
	return p, nil
}

// Run serves until ctx ends: it then takes no new requests from the network, lets those in
// work finish for at most the drain time, and leaves. It is called once.
func (p *Processor) Run(ctx context.Context) error {
	registration, err := p.deps.Register(ctx, p.deps.Instance)
	if err != nil {
		return fmt.Errorf("processor: register: %w", err)
	}
	// The links outlive the server: running sequences finish while it drains.
	linger, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	links, _ := run.NewGroup(linger)
	links.Go("workers", p.workers.run)
	links.Go("prefill workers", p.followPrefills)
	links.Go("routing", p.followRouting)
	front, _ := run.NewGroup(ctx)
	front.Go("registration", registration.Run)
	front.Go("server", func(ctx context.Context) error { return p.deps.Server.Serve(ctx, p.deps.Listener, p.cfg.Drain) })
	front.Go("requests", func(ctx context.Context) error {
		<-ctx.Done()
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Drain)
		defer cancel()
		p.admission.wait(rest) // those of this process do not come through the server
		return nil
	})
	err = front.Wait()
	stop()
	if err = errors.Join(err, links.Wait()); err != nil {
		return fmt.Errorf("processor: %w", err)
	}
	return nil
}

// followRouting follows the workers' events, shares bookings with other processors, and takes
// in changes of the weights until ctx ends.
func (p *Processor) followRouting(ctx context.Context) error {
	g, ctx := run.NewGroup(ctx)
	if p.workers.events != nil {
		g.Go("kv events of decode workers", p.workers.events.follower.Run)
		g.Go("kv events of prefill workers", p.prefillEvents.follower.Run)
	}
	if p.exchange != nil {
		g.Go("bookings", p.exchange.run)
		g.Go("processors", func(ctx context.Context) error { p.exchange.follow(ctx, p.deps.Processors); return nil })
	}
	if p.deps.Weights != nil {
		g.Go("weights", func(ctx context.Context) error {
			for w := range p.deps.Weights(ctx) {
				if w != p.router.Weights() {
					p.log.Info("routing has changed", "weights", w)
					p.router.SetWeights(w)
				}
			}
			return nil
		})
	}
	<-ctx.Done()
	return g.Wait()
}

// Ready waits until a decode worker of the model is attached.
func (p *Processor) Ready(ctx context.Context) error {
	for {
		s := p.workers.state()
		if s.attached {
			return nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return fmt.Errorf("no decode worker serves the model %q: %w", p.deps.Model.Name, ctx.Err())
		}
	}
}
