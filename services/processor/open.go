package processor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/deadletter"
	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/service"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// Shared is what services of one process have in common. With the zero value the
// processor opens its own.
type Shared struct {
	service.Shared

	Model *Model
	NATS  *nats.Conn
}

// Service is a processor with its real dependencies.
type Service struct {
	processor *Processor
	process   *service.Process
	members   *discovery.Members
	prefills  *discovery.Members
	peers     *discovery.Members // the processors
	weights   *discovery.Value[router.Weights]
}

// Open builds the service from a configuration.
func Open(ctx context.Context, cfg Config, shared Shared) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("processor: %w", err)
	}
	process, err := service.Open(ctx, "processor", cfg.Config, shared.Shared, cfg.MaxBodyBytes)
	if err != nil {
		return nil, fmt.Errorf("processor: %w", err)
	}
	model := shared.Model
	if model == nil {
		model, err = cfg.load(ctx)
	}
	s := &Service{
		process: process, members: process.Discovery.Members(instancev1.Role_ROLE_DECODE_WORKER),
		prefills: process.Discovery.Members(instancev1.Role_ROLE_PREFILL_WORKER), peers: process.Discovery.Members(instancev1.Role_ROLE_PROCESSOR),
	}
	nc := shared.NATS
	if err == nil && nc == nil {
		nc, err = s.connect(cfg)
	}
	if err == nil {
		s.weights = discovery.NewValue(process.Discovery, discovery.ConfigKey(model.Name, "router"), cfg.Router.Weights)
		s.processor, err = New(cfg, s.deps(cfg, model, nc))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("processor: %w", err), process.Close())
	}
	return s, nil
}

// connect opens a connection to NATS, which need not be there yet; nil: none is wanted.
func (s *Service) connect(cfg Config) (*nats.Conn, error) {
	if cfg.NATS == "" {
		return nil, nil
	}
	nc, err := broker.Seek(cfg.NATS, s.process.ID, s.process.Log)
	if err == nil {
		s.process.OnClose(func() error { nc.Close(); return nil })
	}
	return nc, err
}

func (s *Service) deps(cfg Config, model *Model, nc *nats.Conn) Deps {
	p := s.process
	var bury func(context.Context, *generationv1.DeadLetter) error
	if nc != nil {
		bury = func(ctx context.Context, letter *generationv1.DeadLetter) error {
			return deadletter.Send(ctx, nc, letter)
		}
	}
	instance := p.Describe(instancev1.Role_ROLE_PROCESSOR)
	instance.Model = &instancev1.ModelCard{Name: model.Name} // by which frontends find it
	return Deps{
		Processors: ofModel{s.peers, model.Name}, NATS: nc, Weights: s.weights.Watch, Bury: bury,
		Model: model, Instance: instance, Listener: p.Listener, Server: p.Server,
		Workers: s.members, PrefillWorkers: s.prefills,
		Register: func(ctx context.Context, i *instancev1.Instance) (Registration, error) {
			return p.Discovery.Register(ctx, i)
		},
		// The one call, Attach, lives as long as the process: it is no span. Submits carry their own.
		Dial: func(address string) (*grpc.ClientConn, error) {
			return rpc.Dial(address, rpc.DialOptions{BodyLimitBytes: cfg.MaxBodyBytes})
		},
		Died:   new(rpc.Deaths).Died,
		Logger: p.Log, Tracer: p.Telemetry.Tracer(), Meter: p.Telemetry.Meter(),
	}
}

// ofModel are the members that serve a model.
type ofModel struct {
	Watcher
	model string
}

// Watch implements Watcher.
func (o ofModel) Watch(ctx context.Context) iter.Seq[discovery.Snapshot] {
	return func(yield func(discovery.Snapshot) bool) {
		for s := range o.Watcher.Watch(ctx) {
			s.Members = slices.DeleteFunc(slices.Clone(s.Members), func(m discovery.Member) bool {
				return m.Instance.GetModel().GetName() != o.model
			})
			if !yield(s) {
				return
			}
		}
	}
}

// Run serves until ctx ends and gives everything back.
func (s *Service) Run(ctx context.Context) error {
	// Discovery outlives the drain: requests still in work may need another worker.
	linger, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, _ := run.NewGroup(linger)
	g.Go("process", func(ctx context.Context) error { return s.process.Run(ctx, s.members, s.prefills, s.peers) })
	g.Go("weights", s.weights.Run)
	err := s.processor.Run(ctx)
	stop()
	return errors.Join(err, g.Wait(), s.process.Close())
}

// Ready waits until a decode worker of the model is attached.
func (s *Service) Ready(ctx context.Context) error { return s.processor.Ready(ctx) }

// Server is the processor for callers in the same process.
func (s *Service) Server() processorv1.ProcessorServer { return s.processor }
