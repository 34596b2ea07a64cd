package processor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// Shared is what services of one process have in common. With the zero value the
// processor opens its own.
type Shared struct {
	Model     *Model
	Discovery *discovery.Client
	Telemetry *telemetry.Telemetry
}

// Service is a processor with its real dependencies.
type Service struct {
	processor *Processor
	telemetry *telemetry.Telemetry
	members   *discovery.Members
	metrics   net.Listener   // nil: none
	closers   []func() error // in the order of opening
}

// Open builds the service from a configuration.
func Open(ctx context.Context, cfg Config, shared Shared) (s *Service, err error) {
	s = &Service{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("processor: %w", err), s.close())
			s = nil
		}
	}()
	if err := cfg.Validate(); err != nil {
		return s, err
	}
	if err := s.openTelemetry(ctx, cfg, shared); err != nil {
		return s, err
	}
	listener, err := s.listen("listen", cfg.Listen)
	if err != nil {
		return s, err
	}
	if cfg.Metrics != "" {
		if s.metrics, err = s.listen("metrics", cfg.Metrics); err != nil {
			return s, err
		}
	}
	client, err := s.openDiscovery(ctx, cfg, shared)
	if err != nil {
		return s, err
	}
	model := shared.Model
	if model == nil {
		if model, err = LoadModel(ctx, cfg.Model, cfg.Name); err != nil {
			return s, err
		}
	}
	s.members = client.Members(instancev1.Role_ROLE_DECODE_WORKER)
	log, tracer, meter := s.telemetry.Logger(), s.telemetry.Tracer(), s.telemetry.Meter()
	s.processor, err = New(cfg, Deps{
		Model: model, Instance: instance(cfg, listener), Listener: listener,
		Server:  rpc.NewServer(rpc.ServerOptions{Logger: log, Tracer: tracer, Meter: meter, BodyLimitBytes: cfg.MaxBodyBytes}),
		Workers: s.members,
		Register: func(ctx context.Context, i *instancev1.Instance) (Registration, error) {
			return client.Register(ctx, i)
		},
		// The one call, Attach, lives as long as the process: it is no span. Submits carry their own.
		Dial: func(address string) (*grpc.ClientConn, error) {
			return rpc.Dial(address, rpc.DialOptions{BodyLimitBytes: cfg.MaxBodyBytes})
		},
		Logger: log, Tracer: tracer, Meter: meter,
	})
	return s, err
}

func (s *Service) openTelemetry(ctx context.Context, cfg Config, shared Shared) (err error) {
	if shared.Telemetry != nil {
		s.telemetry, err = shared.Telemetry.For("processor", cfg.ID)
		return err
	}
	if s.telemetry, err = telemetry.Open(ctx, cfg.Telemetry, "processor", cfg.ID); err == nil {
		s.closers = append(s.closers, func() error { return s.telemetry.Shutdown(context.WithoutCancel(ctx)) })
	}
	return err
}

func (s *Service) listen(field, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w", field, address, err)
	}
	s.closers = append(s.closers, func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // its server may have closed it
			return err
		}
		return nil
	})
	return l, nil
}

func (s *Service) openDiscovery(ctx context.Context, cfg Config, shared Shared) (*discovery.Client, error) {
	if shared.Discovery != nil {
		return shared.Discovery, nil
	}
	d := discovery.DefaultConfig()
	d.Endpoints = cfg.Etcd
	client, err := discovery.Open(ctx, d, s.telemetry.Logger())
	if err == nil {
		s.closers = append(s.closers, client.Close)
	}
	return client, err
}

func instance(cfg Config, listener net.Listener) *instancev1.Instance {
	now, address := time.Now(), cfg.Advertise
	if address == "" {
		address = listener.Addr().String()
	}
	return &instancev1.Instance{
		Id: cfg.ID, Incarnation: discovery.NewIncarnation(now), Role: instancev1.Role_ROLE_PROCESSOR,
		Address: address, Started: timestamppb.New(now),
	}
}

func (s *Service) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// Run serves until ctx ends and gives everything back.
func (s *Service) Run(ctx context.Context) error {
	// Discovery outlives the drain: requests still in work may need another worker.
	linger, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, _ := run.NewGroup(linger)
	g.Go("members", s.members.Run)
	if s.metrics != nil {
		g.Go("metrics", func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, s.metrics, telemetry.HTTPOptions{Metrics: s.telemetry.Metrics()})
		})
	}
	err := s.processor.Run(ctx)
	stop()
	return errors.Join(err, g.Wait(), s.close())
}

// Ready waits until a decode worker of the model is attached.
func (s *Service) Ready(ctx context.Context) error { return s.processor.Ready(ctx) }

// Server is the processor for callers in the same process.
func (s *Service) Server() processorv1.ProcessorServer { return s.processor }
