package frontend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/switchyard-llm/switchyard/libs/discovery"
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

	// Processors are those of this process by the names of their models, called without a socket.
	// None: those that etcd knows are called.
	Processors map[string]processorv1.ProcessorServer
}

// Service is a frontend with its real dependencies.
type Service struct {
	frontend *Frontend
	process  *service.Process
	http     net.Listener
	found    *found // nil: the processors are of this process
}

// remembered is the least for which a model that no processor serves is taken to come back: until
// then it is unavailable, after that unknown.
const remembered = 5 * time.Minute

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
	if err := s.connect(cfg, shared, &deps); err != nil {
		return err
	}
	s.frontend, err = New(cfg, deps)
	return err
}

// connect makes the clients of the other services.
func (s *Service) connect(cfg Config, shared Shared, deps *Deps) error {
	conns := rpc.NewConns(s.dial(s.process.Discovery.Resolver()))
	s.process.OnClose(conns.Close)
	planner, err := conns.To(discovery.Target(instancev1.Role_ROLE_PLANNER, ""))
	if err != nil {
		return err
	}
	deps.Planner = plannerv1.NewPlannerClient(planner)
	// A connection is closed when its model is forgotten: no request may be that old.
	all := newProcessors(max(remembered, cfg.RequestTimeout))
	deps.Processor = all
	if len(shared.Processors) > 0 {
		s.join(all, shared.Processors)
		return nil
	}
	members := s.process.Discovery.Members(instancev1.Role_ROLE_PROCESSOR)
	s.found = &found{
		processors: all, members: members, dial: s.dial(members.Resolver()), log: deps.Logger, conns: map[string]*grpc.ClientConn{},
	}
	s.process.OnClose(s.found.close)
	return nil
}

func (s *Service) dial(of resolver.Builder) rpc.DialOptions {
	dial := s.process.Dial()
	dial.Resolvers, dial.RoundRobin = []resolver.Builder{of}, true
	return dial
}

// join leads to the processors of this process.
func (s *Service) join(all *processors, own map[string]processorv1.ProcessorServer) {
	log, known := s.process.Log, make(map[string]served, len(own))
	for model, server := range own {
		conn := local.New(local.Options{Unary: rpc.UnaryInterceptor(log), Stream: rpc.StreamInterceptor(log)})
		processorv1.RegisterProcessorServer(conn, server)
		s.process.OnClose(func() error { conn.Close(); return nil })
		known[model] = served{client: processorv1.NewProcessorClient(conn)}
	}
	all.known.Store(&known)
}

// Addr is where the OpenAI server listens.
func (s *Service) Addr() net.Addr { return s.http.Addr() }

// Ready waits until a model is served, which /health tells as well. Run must be running.
func (s *Service) Ready(ctx context.Context) error { return s.frontend.Ready(ctx) }

// Run serves until ctx ends and gives everything back.
func (s *Service) Run(ctx context.Context) error {
	// Discovery outlives the drain: what was taken in still needs a processor.
	linger, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, around := run.NewGroup(linger)
	g.Go("process", func(ctx context.Context) error { return s.process.Run(ctx) })
	if s.found != nil {
		g.Go("members", s.found.members.Run)
		g.Go("processors", s.found.run)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(around, cancel)() // one that has lost a part ends
	err := s.frontend.Run(ctx)
	stop()
	return errors.Join(err, g.Wait(), s.process.Close())
}
