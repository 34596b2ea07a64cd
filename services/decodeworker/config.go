package decodeworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/worker"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
	"github.com/switchyard-llm/switchyard/services/decodeworker/handoff"
)

// Config is the service's configuration.
type Config struct {
	worker.ProcessConfig `yaml:",inline"`

	HandOff handoff.Config `yaml:"hand_off"`
}

// DefaultConfig runs on one host with the usual ports of etcd and NATS.
func DefaultConfig() Config {
	c := Config{ProcessConfig: worker.DefaultProcessConfig("127.0.0.1:7003"), HandOff: handoff.DefaultConfig()}
	return c
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	if err := c.HandOff.Validate(); err != nil {
		return fmt.Errorf("hand_off.%w", err)
	}
	return c.ProcessConfig.Validate()
}

// Service is a decode worker with its real dependencies.
type Service struct {
	worker   *DecodeWorker
	process  *worker.Process
	prefills *discovery.Members
	policy   *discovery.Value[disagg.Policy]
	conns    *rpc.Conns
}

// Open builds the service from a configuration; shared is the zero value in a process of
// its own. Each adjust may change the dependencies before the service is built.
func Open(ctx context.Context, cfg Config, shared worker.Shared, adjust ...func(*Deps)) (*Service, error) {
	p, err := worker.Open(ctx, cfg.ProcessConfig, instancev1.Role_ROLE_DECODE_WORKER, "decodeworker", shared)
	if err != nil {
		return nil, err
	}
	model := p.Worker.Card().Model
	s := &Service{
		process:  p,
		prefills: p.Discovery.Members(instancev1.Role_ROLE_PREFILL_WORKER),
		policy: discovery.NewValue(p.Discovery, discovery.ConfigKey(model, "disagg"),
			disagg.DefaultPolicy(p.Worker.Layout().BlockTokens)),
		conns: rpc.NewConns(p.Dial()),
	}
	planner, err := s.conns.To("switchyard:///planner")
	if err == nil {
		deps := Deps{
			Worker: p.Worker, Instance: p.Instance, Listener: p.Listener, Server: p.Server,
			Queue: p.Queue, PrefillWorkers: s.prefillWorkers, Policy: s.policy.Load, Abort: s.abort, PrefillWorker: s.prefillWorker,
			Died: new(rpc.Deaths).Died,
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

// metInterval is how often Met looks.
const metInterval = 10 * time.Millisecond

// Met waits until the worker knows so many prefill workers that could do a job. Run must be
// running.
func (s *Service) Met(ctx context.Context, prefillWorkers int) error {
	tick := time.NewTicker(metInterval)
	defer tick.Stop()
	for s.worker.prefillWorkers() < prefillWorkers {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("decode worker %s knows %d prefill workers, want %d: %w", s.process.ID, s.worker.prefillWorkers(), prefillWorkers, ctx.Err())
		}
	}
	return nil
}

// Run serves until ctx ends and gives everything back.
func (s *Service) Run(ctx context.Context) error {
	// Discovery outlives the service's drain: sequences that still run may go remote.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, around := run.NewGroup(inner)
	g.Go("process", func(ctx context.Context) error { return s.process.Run(ctx, s.prefills) })
	g.Go("policy", s.policy.Run)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(around, cancel)() // a worker that has lost a part drains
	err := s.worker.Run(ctx)
	stop()
	return errors.Join(err, g.Wait(), s.conns.Close(), s.process.Close())
}

// prefillWorkers are those whose blocks this worker could take, block by block, in its own style.
func (s *Service) prefillWorkers() []*instancev1.Instance {
	card := s.process.Instance.GetModel()
	return slices.DeleteFunc(s.prefills.Snapshot().Live(card.GetName()), func(i *instancev1.Instance) bool {
		m := i.GetModel()
		return m.GetKvFormat() != card.GetKvFormat() || m.GetBlockTokens() != card.GetBlockTokens() || worker.StyleOf(m) != worker.StyleOf(card)
	})
}

func (s *Service) prefillWorker(address string) (prefillworkerv1.PrefillWorkerClient, error) {
	conn, err := s.conns.To(address)
	if err != nil {
		return nil, err
	}
	return prefillworkerv1.NewPrefillWorkerClient(conn), nil
}

func (s *Service) abort(ctx context.Context, address string, r *prefillworkerv1.AbortRequest) error {
	client, err := s.prefillWorker(address)
	if err != nil {
		return err
	}
	_, err = client.Abort(ctx, r)
	return err
}
