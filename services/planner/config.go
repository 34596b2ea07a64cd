package planner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// Config is the service's configuration.
type Config struct {
	ID        string           `yaml:"id" help:"name of this planner among the members"`
	Listen    string           `yaml:"listen" help:"address of the gRPC server, host:port"`
	Advertise string           `yaml:"advertise" help:"address by which others reach the gRPC server; the listening one if empty"`
	Metrics   string           `yaml:"metrics" help:"address of the HTTP server for /metrics and /health; none if empty"`
	Drain     time.Duration    `yaml:"drain" help:"how long calls may go on after SIGTERM"`
	Etcd      []string         `yaml:"etcd" help:"endpoints of etcd"`
	Telemetry telemetry.Config `yaml:"telemetry"`
}

// DefaultConfig runs on one host with the usual port of etcd.
func DefaultConfig() Config {
	return Config{
		ID: "planner-0", Listen: "127.0.0.1:7005", Drain: time.Second,
		Etcd: []string{"127.0.0.1:2379"}, Telemetry: telemetry.DefaultConfig(),
	}
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	switch {
	case c.ID == "":
		return errors.New("id is empty, want a name")
	case c.Listen == "":
		return errors.New(`listen is empty, want an address such as "127.0.0.1:7005"`)
	case len(c.Etcd) == 0:
		return errors.New("etcd is empty, want at least one endpoint")
	case c.Drain < 0:
		return fmt.Errorf("drain is %v, want at least 0", c.Drain)
	}
	return c.Telemetry.Validate()
}

// Shared is what services of one process have in common. With the zero value the planner
// opens its own.
type Shared struct {
	Discovery *discovery.Client
	Telemetry *telemetry.Telemetry
}

// Service is a planner with its real dependencies.
type Service struct {
	planner   *Planner
	telemetry *telemetry.Telemetry
	metrics   net.Listener // nil: none
	closers   []func() error
}

// Open builds the service from a configuration.
func Open(ctx context.Context, cfg Config, shared Shared) (s *Service, err error) {
	s = &Service{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("planner: %w", err), s.close())
			s = nil
		}
	}()
	if err := cfg.Validate(); err != nil {
		return s, err
	}
	if err := s.openTelemetry(ctx, cfg, shared); err != nil {
		return s, err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return s, fmt.Errorf("listen is %q: %w", cfg.Listen, err)
	}
	if cfg.Metrics != "" {
		if s.metrics, err = net.Listen("tcp", cfg.Metrics); err != nil {
			return s, errors.Join(fmt.Errorf("metrics is %q: %w", cfg.Metrics, err), listener.Close())
		}
	}
	members := shared.Discovery
	if members == nil {
		d := discovery.DefaultConfig()
		d.Endpoints = cfg.Etcd
		if members, err = discovery.Open(ctx, d, s.telemetry.Logger()); err != nil {
			return s, errors.Join(err, listener.Close())
		}
		s.closers = append(s.closers, members.Close)
	}
	now := time.Now()
	instance := &instancev1.Instance{
		Id: cfg.ID, Incarnation: discovery.NewIncarnation(now), Role: instancev1.Role_ROLE_PLANNER,
		Address: listener.Addr().String(), Started: timestamppb.New(now),
	}
	if cfg.Advertise != "" {
		instance.Address = cfg.Advertise
	}
	s.planner, err = New(cfg, Deps{
		Instance: instance, Listener: listener,
		Server: rpc.NewServer(rpc.ServerOptions{Logger: s.telemetry.Logger(), Tracer: s.telemetry.Tracer(), Meter: s.telemetry.Meter()}),
		Register: func(ctx context.Context, i *instancev1.Instance) (Registration, error) {
			return members.Register(ctx, i)
		},
	})
	return s, err
}

func (s *Service) openTelemetry(ctx context.Context, cfg Config, shared Shared) (err error) {
	if shared.Telemetry != nil {
		s.telemetry, err = shared.Telemetry.For("planner", cfg.ID)
		return err
	}
	if s.telemetry, err = telemetry.Open(ctx, cfg.Telemetry, "planner", cfg.ID); err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { return s.telemetry.Shutdown(context.WithoutCancel(ctx)) })
	return nil
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
	g, ctx := run.NewGroup(ctx)
	g.Go("planner", s.planner.Run)
	if s.metrics != nil {
		g.Go("metrics", func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, s.metrics, telemetry.HTTPOptions{Metrics: s.telemetry.Metrics()})
		})
	}
	return errors.Join(g.Wait(), s.close())
}
