package prefillworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/worker"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
)

// Config is the service's configuration.
type Config struct {
	worker.ProcessConfig `yaml:",inline"`

	Jobs         int           `yaml:"jobs" help:"most jobs in work at once (push): one is computed while the blocks of another travel"`
	Calls        int           `yaml:"calls" help:"most prompts in work at once that decode workers asked for (pull, rendezvous); further ones are refused and computed elsewhere"`
	Hold         time.Duration `yaml:"hold" help:"how long a prompt that was asked for is held for its reader (pull), beside the time per token"`
	HoldPerToken time.Duration `yaml:"hold_per_token" help:"how much longer it is held for each token to read"`
}

// DefaultConfig runs on one host with the usual ports of etcd and NATS.
func DefaultConfig() Config {
	c := Config{
		ProcessConfig: worker.DefaultProcessConfig("127.0.0.1:7004"), Jobs: 2, Calls: 8,
		Hold: 10 * time.Second, HoldPerToken: time.Millisecond,
	}
	c.Pool.StepTokens = 256 // nothing decodes here
	return c
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	if c.Jobs < 1 {
		return fmt.Errorf("jobs is %d, want at least 1", c.Jobs)
	}
	if c.Calls < 1 {
		return fmt.Errorf("calls is %d, want at least 1", c.Calls)
	}
	if c.Hold <= 0 {
		return fmt.Errorf("hold is %v, want more than 0", c.Hold)
	}
	if c.HoldPerToken < 0 {
		return fmt.Errorf("hold_per_token is %v, want at least 0", c.HoldPerToken)
	}
	return c.ProcessConfig.Validate()
}

// Service is a prefill worker with its real dependencies.
type Service struct {
	worker  *PrefillWorker
	process *worker.Process
	decodes *discovery.Members
	conns   *rpc.Conns
}

// Open builds the service from a configuration; shared is the zero value in a process of
// its own. Each adjust may change the dependencies before the service is built.
func Open(ctx context.Context, cfg Config, shared worker.Shared, adjust ...func(*Deps)) (*Service, error) {
	p, err := worker.Open(ctx, cfg.ProcessConfig, instancev1.Role_ROLE_PREFILL_WORKER, "prefillworker", shared)
	if err != nil {
		return nil, err
	}
	s := &Service{
		process: p,
		decodes: p.Discovery.Members(instancev1.Role_ROLE_DECODE_WORKER),
		conns:   rpc.NewConns(p.Dial()),
	}
	planner, err := s.conns.To("switchyard:///planner")
	if err == nil {
		deps := Deps{
			Worker: p.Worker, Instance: p.Instance, Listener: p.Listener, Server: p.Server,
			Queue: p.Queue, Kept: kept(p), DecodeWorkers: members{s.decodes}, Connect: s.conns.To,
			Register: func(ctx context.Context, i *instancev1.Instance) (Registration, error) {
				return p.Discovery.Register(ctx, i)
			},
			Planner: plannerv1.NewPlannerClient(planner), Logger: p.Log, Tracer: p.Telemetry.Tracer(), Meter: p.Telemetry.Meter(),
		}
		for _, f := range adjust {
			f(&deps)
		}
		s.worker, err = New(cfg, deps)
	}
	if err != nil {
		return nil, errors.Join(err, s.conns.Close(), p.Close())
	}
	return s, nil
}

// kept is the queue of the jobs for this worker alone; nil where there is none.
func kept(p *worker.Process) Queue {
	if p.Kept == nil {
		return nil
	}
	return p.Kept
}

// Run serves until ctx ends and gives everything back.
func (s *Service) Run(ctx context.Context) error {
	// Discovery outlives the service's drain: jobs in work still find their decode worker.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, around := run.NewGroup(inner)
	g.Go("process", func(ctx context.Context) error { return s.process.Run(ctx, s.decodes) })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(around, cancel)() // a worker that has lost a part drains
	err := s.worker.Run(ctx)
	stop()
	return errors.Join(err, g.Wait(), s.conns.Close(), s.process.Close())
}

// members are the decode workers of the discovery.
type members struct{ *discovery.Members }

// Find implements Members.
func (m members) Find(id string) (*instancev1.Instance, bool) {
	snapshot := m.Snapshot()
	member, found := snapshot.Find(id)
	if !found {
		return nil, snapshot.Revision > 0 && !snapshot.Stale
	}
	return member.Instance, true
}
