package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/cpu"
	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/kvevent"
	"github.com/switchyard-llm/switchyard/libs/modelstore"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	"github.com/switchyard-llm/switchyard/libs/service"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// ProcessConfig is what both worker services read from their file, environment and flags.
type ProcessConfig struct {
	service.Config `yaml:",inline"`
	TransferConfig `yaml:",inline"`

	NATS   string       `yaml:"nats" help:"URL of NATS"`
	Engine EngineConfig `yaml:"engine"`
	Pool   Config       `yaml:"pool"`
	Queue  QueueConfig  `yaml:"queue"`
	Events EventsConfig `yaml:"events"`
}

// EngineConfig says what a worker computes with.
type EngineConfig struct {
	Kind        string `yaml:"kind" help:"cpu, or sim: takes the time of a GPU engine and computes nothing"`
	Model       string `yaml:"model" help:"a GGUF file, or the name of a model that can be fetched; for kind cpu"`
	Name        string `yaml:"name" help:"name under which the model is served; its own if empty"`
	BlockTokens int    `yaml:"block_tokens" help:"tokens per KV block: 16 to 128, a multiple of 16; equal on all workers of a model"`
	Threads     int    `yaml:"threads" help:"threads of one step; 0 is one per core; for kind cpu"`
	Style       Style  `yaml:"style" help:"how prompts are handed off: push (by the prefill queue), pull or rendezvous (the decode worker calls); equal on all workers of a model"`
	DPRank      int    `yaml:"dp_rank" help:"which of the data-parallel ranks of its group the worker is, from 0"`
	DPGroup     string `yaml:"dp_group" help:"name of that group; empty: the worker is alone"`

	Sim SimConfig `yaml:"sim"`
}

// QueueConfig bounds the prefill queue.
type QueueConfig struct {
	Jobs    int           `yaml:"jobs" help:"most jobs in the queue, those in work included"`
	AckWait time.Duration `yaml:"ack_wait" help:"how long a silent prefill worker keeps a job before another gets it"`
	Timeout time.Duration `yaml:"timeout" help:"how long NATS may take to confirm a job or tell the depth before the prompt is computed locally"`
}

// DefaultProcessConfig is for one host with the usual ports of etcd and NATS.
func DefaultProcessConfig(listen string) ProcessConfig {
	q := prefillqueue.DefaultConfig()
	return ProcessConfig{
		Config: service.DefaultConfig("", listen, 30*time.Second),
		NATS:   nats.DefaultURL, TransferConfig: DefaultTransferConfig(),
		Engine: EngineConfig{Kind: CPU, Model: modelstore.DefaultModel, BlockTokens: 16, Style: Push, Sim: DefaultSimConfig()},
		Pool:   DefaultConfig(),
		Queue:  QueueConfig{Jobs: q.MaxJobs, AckWait: q.AckWait, Timeout: q.PublishTimeout},
		Events: DefaultEventsConfig(),
	}
}

// Validate names the first field that cannot be.
func (c ProcessConfig) Validate() error {
	if c.NATS == "" {
		return errors.New("nats is empty, want a URL")
	}
	return errors.Join(c.Config.Validate(), c.TransferConfig.Validate(),
		within("engine", c.Engine.Validate()), within("pool", c.Pool.Validate()), within("queue", c.Queue.Validate()), within("events", c.Events.Validate()))
}

// within puts a section's key in front of an error that begins with a key of the section.
func within(section string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s.%w", section, err)
}

// Validate names the first field that cannot be, by its key within the engine's section.
func (c EngineConfig) Validate() error {
	switch {
	case c.Kind != CPU && c.Kind != Sim:
		return fmt.Errorf("kind is %q, want %s or %s", c.Kind, CPU, Sim)
	case c.Model == "":
		return errors.New("model is empty, want a GGUF file or a name")
	case c.BlockTokens < 16 || c.BlockTokens > 128 || c.BlockTokens%16 != 0:
		return fmt.Errorf("block_tokens is %d, want 16 to 128, a multiple of 16", c.BlockTokens)
	case c.Threads < 0 || c.Threads > cpu.MaxThreads:
		return fmt.Errorf("threads is %d, want 0 to %d", c.Threads, cpu.MaxThreads)
	case !c.Style.valid():
		return fmt.Errorf("style is %q, want one of %v", c.Style, styles)
	case c.DPRank < 0 || c.DPRank > 0 && c.DPGroup == "":
		return fmt.Errorf("dp_rank is %d, want at least 0, and 0 without a dp_group", c.DPRank)
	}
	return within("sim", c.Sim.Validate())
}

// Validate names the first field that cannot be, by its key within the queue's section.
func (c QueueConfig) Validate() error {
	switch {
	case c.Jobs < 1:
		return fmt.Errorf("jobs is %d, want at least 1", c.Jobs)
	case c.AckWait < 100*time.Millisecond: // as of prefillqueue.Config, whose names the user has not written
		return fmt.Errorf("ack_wait is %v, want at least 100ms", c.AckWait)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout is %v, want more than 0", c.Timeout)
	}
	return nil
}

// Shared is what workers of one process have in common. With the zero value a worker
// opens its own.
type Shared struct {
	service.Shared

	Model     *cpu.Model // and the name it is served under
	ModelName string
	Network   *inproc.Network // for the inproc transport
	NATS      *nats.Conn
	// Engine, unless nil, stands between the worker and its engine.
	Engine func(engine.Executor) engine.Executor
}

// Process is a worker with all that surrounds it: what a worker service is given.
type Process struct {
	*service.Process

	Worker   *Worker
	Instance *instancev1.Instance
	Queue    *prefillqueue.Queue
	Kept     *prefillqueue.Queue // of the jobs for this worker alone; nil on a decode worker, and without a queue's style
}

// LoadModel brings a model into memory: fetches it where it has only a name, and says
// how far it is on standard error.
func LoadModel(ctx context.Context, cfg EngineConfig) (*cpu.Model, string, error) {
	path, err := modelstore.Resolve(ctx, cfg.Model, modelstore.NewProgress(os.Stderr))
	if err != nil {
		return nil, "", err
	}
	file, err := gguf.Open(path)
	if err != nil {
		return nil, "", err
	}
	model, err := cpu.LoadModel(file)
	name := cfg.Name
	if name == "" {
		general, _ := file.String("general.name") // optional
		name = modelstore.Name(cfg.Model, general)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, "", fmt.Errorf("load %s: %w", path, err)
	}
	return model, name, nil
}

// Open builds a worker and its surroundings. Close gives everything back.
func Open(ctx context.Context, cfg ProcessConfig, role instancev1.Role, name string, shared Shared) (*Process, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	around, err := service.Open(ctx, name, cfg.Config, shared.Shared, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &Process{Process: around}
	if err = p.openWorker(ctx, cfg, shared); err == nil {
		err = p.openQueue(ctx, cfg, role, shared)
	}
	if err == nil {
		err = p.describe(cfg, role)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s %s: %w", name, p.ID, err), p.Close())
	}
	return p, nil
}

// openEngine makes the executor: over the shared model or one that is loaded here, or a simulated one.
func (p *Process) openEngine(ctx context.Context, cfg EngineConfig, shared Shared) (engine.Executor, error) {
	if cfg.Kind == Sim {
		executor, err := cfg.simulate()
		if err != nil {
			return nil, fmt.Errorf("engine.%w", err)
		}
		return executor, nil
	}
	model, name := shared.Model, shared.ModelName
	if model == nil {
		var err error
		if model, name, err = LoadModel(ctx, cfg); err != nil {
			return nil, fmt.Errorf("engine.model: %w", err)
		}
		p.OnClose(model.Close)
	}
	executor, err := model.Executor(cpu.Options{Model: name, BlockTokens: cfg.BlockTokens, Threads: cfg.Threads})
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return executor, nil
}

func (p *Process) openWorker(ctx context.Context, cfg ProcessConfig, shared Shared) error {
	executor, err := p.openEngine(ctx, cfg.Engine, shared)
	if err != nil {
		return err
	}
	if shared.Engine != nil {
		executor = shared.Engine(executor)
	}
	base := nixl.Config{Name: p.ID, Incarnation: p.Incarnation, KVFormat: executor.Card().KVFormat, Logger: p.Log}
	agent, err := cfg.TransferConfig.agent(base, cfg.Listen, shared.Network)
	if err != nil {
		return err
	}
	p.OnClose(agent.Close)
	if cfg.Engine.Kind == Sim {
		card := executor.Card()
		if agent, err = slow(agent, cfg.Engine.Sim.linkBytesPerSecond(), float64(card.RowBytes())/float64(card.Layout.RowBytes())); err != nil {
			return err
		}
	}
	p.Worker, err = New(cfg.Pool, Deps{Executor: executor, Agent: agent, Memory: cfg.memory(), Events: &cfg.Events, Rank: uint32(cfg.Engine.DPRank), Logger: p.Log})
	if err != nil {
		return err
	}
	p.OnClose(p.Worker.Close)
	if err := p.Worker.Events.Listen(ctx, p.Log); err != nil {
		return err
	}
	return p.Worker.observe(p.Telemetry.Meter())
}

func (p *Process) openQueue(ctx context.Context, cfg ProcessConfig, role instancev1.Role, shared Shared) (err error) {
	connection := shared.NATS
	if connection == nil {
		if connection, err = broker.Seek(cfg.NATS, p.ID, p.Log); err != nil {
			return err
		}
		p.OnClose(func() error { connection.Close(); return nil })
	}
	p.Worker.Events.PublishOver(connection, poolOf(role))
	q := prefillqueue.DefaultConfig()
	q.Pool, q.KVFormat = p.Worker.Card().Model, p.Worker.Card().KVFormat
	q.MaxJobs, q.AckWait, q.PublishTimeout = cfg.Queue.Jobs, cfg.Queue.AckWait, cfg.Queue.Timeout
	if p.Queue, err = prefillqueue.Open(ctx, connection, q, p.Log); err != nil {
		return err
	}
	if role == instancev1.Role_ROLE_PREFILL_WORKER && cfg.Engine.Style == Push {
		q.Worker = p.ID
		p.Kept, err = prefillqueue.Open(ctx, connection, q, p.Log)
	}
	return err
}

func poolOf(role instancev1.Role) kvevent.Pool {
	if role == instancev1.Role_ROLE_PREFILL_WORKER {
		return kvevent.Prefill
	}
	return kvevent.Decode
}

// describe makes the instance that is announced.
func (p *Process) describe(cfg ProcessConfig, role instancev1.Role) error {
	endpoint, err := p.Worker.Endpoint(cfg.Transport)
	if err != nil {
		return err
	}
	p.Instance = p.Describe(role)
	p.Instance.Model, p.Instance.Transfer = p.Worker.ModelCard(), []*instancev1.TransferEndpoint{endpoint}
	p.Instance.Model.HandOffStyle = cfg.Engine.Style.Wire()
	p.Instance.Model.DpRank, p.Instance.Model.DpGroup = uint32(cfg.Engine.DPRank), cfg.Engine.DPGroup
	return nil
}
