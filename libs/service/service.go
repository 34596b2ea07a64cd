// Package service is what every service process has around its service: a name among the
// members, telemetry, a gRPC server with its listener, and etcd. A service's Open begins
// with Open here; what it opens beyond that it hands to OnClose.
//
// Nothing runs until the service's own Run, which calls Run here beside its other parts.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// Config is what all services read from their file, environment and flags.
type Config struct {
	ID        string           `yaml:"id" help:"name among the members; the host's and the service's if empty"`
	Listen    string           `yaml:"listen" help:"address of the gRPC server, host:port"`
	Advertise string           `yaml:"advertise" help:"address by which others reach the gRPC server; the listening one if empty"`
	Metrics   string           `yaml:"metrics" help:"address of an HTTP server for /metrics and /health; none if empty"`
	Drain     time.Duration    `yaml:"drain" help:"how long work may go on after SIGTERM"`
	Etcd      []string         `yaml:"etcd" help:"endpoints of etcd"`
	Telemetry telemetry.Config `yaml:"telemetry"`
}

// DefaultConfig runs on one host with the usual port of etcd.
func DefaultConfig(id, listen string, drain time.Duration) Config {
	return Config{ID: id, Listen: listen, Drain: drain, Etcd: []string{"127.0.0.1:2379"}, Telemetry: telemetry.DefaultConfig()}
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	switch {
	case strings.Contains(c.ID, "/"): // it is part of a key in etcd and of a file's name
		return fmt.Errorf("id is %q, want a name without a slash", c.ID)
	case c.Listen == "":
		return errors.New(`listen is empty, want an address such as "127.0.0.1:7001"`)
	case len(c.Etcd) == 0:
		return errors.New("etcd is empty, want at least one endpoint")
	case c.Drain < 0:
		return fmt.Errorf("drain is %v, want at least 0", c.Drain)
	}
	if err := c.Telemetry.Validate(); err != nil {
		return fmt.Errorf("telemetry.%w", err)
	}
	return nil
}

// Shared is what the services of one process have in common. With the zero value a
// service opens its own.
type Shared struct {
	Discovery *discovery.Client
	Telemetry *telemetry.Telemetry
}

// Process is what surrounds a service.
type Process struct {
	ID          string // among the members
	Incarnation string // this life
	Telemetry   *telemetry.Telemetry
	Log         *slog.Logger
	Listener    net.Listener // of Server
	Server      *rpc.Server
	Discovery   *discovery.Client

	advertise string
	bodyLimit int
	metrics   net.Listener // nil: none
	closers   []func() error
}

// Open opens the surroundings of the service called name, which listens from then on. bodyLimit
// bounds the bodies that messages carry, in bytes; 0 is rpc's default. On an error nothing stays open.
func Open(ctx context.Context, name string, cfg Config, shared Shared, bodyLimit int) (*Process, error) {
	if cfg.ID == "" {
		host, _ := os.Hostname() // an empty one is still an id with the service's name
		cfg.ID = host + "-" + name
	}
	p := &Process{ID: cfg.ID, Incarnation: discovery.NewIncarnation(time.Now()), advertise: cfg.Advertise, bodyLimit: bodyLimit}
	err := cfg.Validate()
	if err == nil {
		err = p.open(ctx, name, cfg, shared)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Process) open(ctx context.Context, name string, cfg Config, shared Shared) (err error) {
	if shared.Telemetry != nil {
		p.Telemetry, err = shared.Telemetry.For(name, cfg.ID)
	} else if p.Telemetry, err = telemetry.Open(ctx, cfg.Telemetry, name, cfg.ID); err == nil {
		p.OnClose(func() error { return p.Telemetry.Shutdown(context.WithoutCancel(ctx)) })
	}
	if err != nil {
		return err
	}
	p.Log = p.Telemetry.Logger()
	p.Server = rpc.NewServer(rpc.ServerOptions{
		Logger: p.Log, Tracer: p.Telemetry.Tracer(), Meter: p.Telemetry.Meter(), BodyLimitBytes: p.bodyLimit,
	})
	if p.Listener, err = p.Listen("listen", cfg.Listen); err != nil {
		return err
	}
	if cfg.Metrics != "" {
		if p.metrics, err = p.Listen("metrics", cfg.Metrics); err != nil {
			return err
		}
	}
	if p.Discovery = shared.Discovery; p.Discovery != nil {
		return nil
	}
	d := discovery.DefaultConfig()
	d.Endpoints = cfg.Etcd
	if p.Discovery, err = discovery.Open(ctx, d, p.Log); err == nil {
		p.OnClose(p.Discovery.Close)
	}
	return err
}

// Listen takes the address that the field of that name gives, until Close.
func (p *Process) Listen(field, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w", field, address, err)
	}
	p.OnClose(func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // its server may have closed it
			return err
		}
		return nil
	})
	return l, nil
}

// Dial are the options for connections to other services.
func (p *Process) Dial() rpc.DialOptions {
	return rpc.DialOptions{
		Tracer: p.Telemetry.Tracer(), Meter: p.Telemetry.Meter(), BodyLimitBytes: p.bodyLimit,
		Resolvers: []resolver.Builder{p.Discovery.Resolver()},
	}
}

// Describe is this process as the members see it.
func (p *Process) Describe(role instancev1.Role) *instancev1.Instance {
	i := &instancev1.Instance{
		Id: p.ID, Incarnation: p.Incarnation, Role: role, Address: p.advertise, Started: timestamppb.Now(),
	}
	if i.Address == "" {
		i.Address = p.Listener.Addr().String()
	}
	return i
}

// Run serves the metrics and follows the members until ctx ends.
func (p *Process) Run(ctx context.Context, members ...*discovery.Members) error {
	g, ctx := run.NewGroup(ctx)
	for _, m := range members {
		g.Go("members", m.Run)
	}
	if p.metrics != nil {
		g.Go("metrics", func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, p.metrics, telemetry.HTTPOptions{Metrics: p.Telemetry.Metrics()})
		})
	}
	<-ctx.Done()
	return g.Wait()
}

// OnClose adds what Close gives back.
func (p *Process) OnClose(f func() error) { p.closers = append(p.closers, f) }

// Close gives everything back, what came last first. Run must have ended.
func (p *Process) Close() error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	p.closers = nil
	return errors.Join(errs...)
}
