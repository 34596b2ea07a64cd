package frontend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/rpc/local"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// Shared is what services of one process have in common. With the zero value the frontend
// opens its own.
type Shared struct {
	Discovery *discovery.Client
	Telemetry *telemetry.Telemetry
	// Processor is one of this process, called without a socket. Nil: those that etcd knows
	// are called.
	Processor processorv1.ProcessorServer
}

// Service is a frontend with its real dependencies.
type Service struct {
	frontend  *Frontend
	telemetry *telemetry.Telemetry
	http      net.Listener
	metrics   net.Listener // nil: served by http
	closers   []func() error
}

// Open builds the service from a configuration. It listens already, so a taken port is an
// error of Open.
func Open(ctx context.Context, cfg Config, shared Shared) (s *Service, err error) {
	s = &Service{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("frontend: %w", err), s.close())
			s = nil
		}
	}()
	if err := cfg.Validate(); err != nil {
		return s, err
	}
	if err := s.openTelemetry(ctx, cfg, shared); err != nil {
		return s, err
	}
	grpc, err := s.listen(cfg)
	if err != nil {
		return s, err
	}
	members, err := s.openDiscovery(ctx, cfg, shared)
	if err != nil {
		return s, err
	}
	deps := Deps{
		HTTP: s.http, GRPC: grpc, Instance: describe(cfg, grpc),
		Server: rpc.NewServer(rpc.ServerOptions{
			Logger: s.telemetry.Logger(), Tracer: s.telemetry.Tracer(), Meter: s.telemetry.Meter(), BodyLimitBytes: cfg.MaxBodyBytes,
		}),
		Register: func(ctx context.Context, i *instancev1.Instance) (Registration, error) {
			return members.Register(ctx, i)
		},
		Logger: s.telemetry.Logger(), Tracer: s.telemetry.Tracer(), Meter: s.telemetry.Meter(),
	}
	if s.metrics == nil {
		deps.Metrics = s.telemetry.Metrics()
	}
	if err := s.connect(cfg, shared, members, &deps); err != nil {
		return s, err
	}
	s.frontend, err = New(cfg, deps)
	return s, err
}

// listen opens the ports. Closing a listener twice is an error that means nothing.
func (s *Service) listen(cfg Config) (grpc net.Listener, err error) {
	open := func(name, address string) (net.Listener, error) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("%s is %q: %w", name, address, err)
		}
		s.closers = append(s.closers, func() error {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
		return l, nil
	}
	if s.http, err = open("http", cfg.HTTP); err != nil {
		return nil, err
	}
	if cfg.Metrics != "" {
		if s.metrics, err = open("metrics", cfg.Metrics); err != nil {
			return nil, err
		}
	}
	return open("listen", cfg.Listen)
}

// connect makes the clients of the other services.
func (s *Service) connect(cfg Config, shared Shared, members *discovery.Client, deps *Deps) error {
	conns := rpc.NewConns(rpc.DialOptions{
		Tracer: deps.Tracer, Meter: deps.Meter, BodyLimitBytes: cfg.MaxBodyBytes,
		Resolvers: []resolver.Builder{members.Resolver()}, RoundRobin: true,
	})
	s.closers = append(s.closers, conns.Close)
	planner, err := conns.To("switchyard:///planner")
	if err != nil {
		return err
	}
	deps.Planner = plannerv1.NewPlannerClient(planner)
	if shared.Processor != nil {
		own := local.New(local.Options{Unary: rpc.UnaryInterceptor(deps.Logger), Stream: rpc.StreamInterceptor(deps.Logger)})
		processorv1.RegisterProcessorServer(own, shared.Processor)
		s.closers = append(s.closers, func() error { own.Close(); return nil })
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

func (s *Service) openDiscovery(ctx context.Context, cfg Config, shared Shared) (*discovery.Client, error) {
	if shared.Discovery != nil {
		return shared.Discovery, nil
	}
	d := discovery.DefaultConfig()
	d.Endpoints = cfg.Etcd
	members, err := discovery.Open(ctx, d, s.telemetry.Logger())
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, members.Close)
	return members, nil
}

func (s *Service) openTelemetry(ctx context.Context, cfg Config, shared Shared) (err error) {
	if shared.Telemetry != nil {
		s.telemetry, err = shared.Telemetry.For("frontend", cfg.ID)
		return err
	}
	if s.telemetry, err = telemetry.Open(ctx, cfg.Telemetry, "frontend", cfg.ID); err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { return s.telemetry.Shutdown(context.WithoutCancel(ctx)) })
	return nil
}

// describe is this process among the members.
func describe(cfg Config, grpc net.Listener) *instancev1.Instance {
	now := time.Now()
	i := &instancev1.Instance{
		Id: cfg.ID, Incarnation: discovery.NewIncarnation(now), Role: instancev1.Role_ROLE_FRONTEND,
		Address: grpc.Addr().String(), Started: timestamppb.New(now),
	}
	if cfg.Advertise != "" {
		i.Address = cfg.Advertise
	}
	return i
}

// Addr is where the OpenAI server listens.
func (s *Service) Addr() net.Addr { return s.http.Addr() }

// Ready waits until a model is served, which /health tells as well. Run must be running.
func (s *Service) Ready(ctx context.Context) error { return s.frontend.Ready(ctx) }

// Run serves until ctx ends and gives everything back.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := run.NewGroup(ctx)
	g.Go("frontend", s.frontend.Run)
	if s.metrics != nil {
		g.Go("metrics", func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, s.metrics, telemetry.HTTPOptions{Metrics: s.telemetry.Metrics()})
		})
	}
	return errors.Join(g.Wait(), s.close())
}

func (s *Service) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}
