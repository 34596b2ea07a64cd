package frontend

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/rpc/local"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/service"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// Shared is what services of one process have in common. With the zero value the frontend
// opens its own.
type Shared struct {
	service.Shared

	// Processor is one of this process, called without a socket. Nil: those that etcd knows
	// are called.
	Processor processorv1.ProcessorServer
}

// Service is a frontend with its real dependencies.
type Service struct {
	frontend *Frontend
	process  *service.Process
	http     net.Listener
}

// Open builds the service from a configuration. It listens already, so a taken port is an
// error of Open.
func Open(ctx context.Context, cfg Config, shared Shared) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("frontend: %w", err)
	}
	process, err := service.Open(ctx, "frontend", cfg.Config, shared.Shared, cfg.MaxBodyBytes)
	if err != nil {
		return nil, fmt.Errorf("frontend: %w", err)
	}
	s := &Service{process: process}
	if err := s.open(cfg, shared); err != nil {
		return nil, errors.Join(fmt.Errorf("frontend: %w", err), process.Close())
	}
	return s, nil
}

func (s *Service) open(cfg Config, shared Shared) (err error) {
	p := s.process
	if s.http, err = p.Listen("http", cfg.HTTP); err != nil {
		return err
	}
	deps := Deps{
		HTTP: s.http, GRPC: p.Listener, Server: p.Server, Instance: p.Describe(instancev1.Role_ROLE_FRONTEND),
		Register: func(ctx context.Context, i *instancev1.Instance) (Registration, error) {
			return p.Discovery.Register(ctx, i)
		},
		Logger: p.Log, Tracer: p.Telemetry.Tracer(), Meter: p.Telemetry.Meter(),
	}
	if cfg.Metrics == "" {
		deps.Metrics = p.Telemetry.Metrics()
	}
	if err := s.connect(shared, &deps); err != nil {
		return err
	}
	s.frontend, err = New(cfg, deps)
	return err
}

// connect makes the clients of the other services.
func (s *Service) connect(shared Shared, deps *Deps) error {
	dial := s.process.Dial()
	dial.RoundRobin = true
	conns := rpc.NewConns(dial)
	s.process.OnClose(conns.Close)
	planner, err := conns.To("switchyard:///planner")
	if err != nil {
		return err
	}
	deps.Planner = plannerv1.NewPlannerClient(planner)
	if shared.Processor != nil {
		own := local.New(local.Options{Unary: rpc.UnaryInterceptor(deps.Logger), Stream: rpc.StreamInterceptor(deps.Logger)})
		processorv1.RegisterProcessorServer(own, shared.Processor)
		s.process.OnClose(func() error { own.Close(); return nil })
		deps.Processor = processorv1.NewProcessorClient(own)
		return nil
	}
	processor, err := conns.To("switchyard:///processor")
	if err != nil {
		return err
	}
	deps.Processor = processorv1.NewProcessorClient(processor)
	return nil
}

// Addr is where the OpenAI server listens.
func (s *Service) Addr() net.Addr { return s.http.Addr() }

// Ready waits until a model is served, which /health tells as well. Run must be running.
func (s *Service) Ready(ctx context.Context) error { return s.frontend.Ready(ctx) }

// Run serves until ctx ends and gives everything back.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := run.NewGroup(ctx)
	g.Go("frontend", s.frontend.Run)
	g.Go("process", func(ctx context.Context) error { return s.process.Run(ctx) })
	return errors.Join(g.Wait(), s.process.Close())
}
