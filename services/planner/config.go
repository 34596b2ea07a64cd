package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/service"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// Config is the service's configuration.
type Config struct {
	service.Config `yaml:",inline"`
}

// DefaultConfig runs on one host with the usual port of etcd.
func DefaultConfig() Config {
	return Config{service.DefaultConfig("planner-0", "127.0.0.1:7005", time.Second)}
}

// Service is a planner with its real dependencies.
type Service struct {
	planner *Planner
	process *service.Process
}

// Open builds the service from a configuration; shared is the zero value in a process of its own.
func Open(ctx context.Context, cfg Config, shared service.Shared) (*Service, error) {
	process, err := service.Open(ctx, "planner", cfg.Config, shared, 0)
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	planner, err := New(cfg, Deps{
		Instance: process.Describe(instancev1.Role_ROLE_PLANNER), Listener: process.Listener, Server: process.Server,
		Register: func(ctx context.Context, i *instancev1.Instance) (Registration, error) {
			return process.Discovery.Register(ctx, i)
		},
	})
	if err != nil {
		return nil, errors.Join(err, process.Close())
	}
	return &Service{planner, process}, nil
}

// Run serves until ctx ends and gives everything back.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := run.NewGroup(ctx)
	g.Go("process", func(ctx context.Context) error { return s.process.Run(ctx) })
	g.Go("planner", s.planner.Run)
	return errors.Join(g.Wait(), s.process.Close())
}
