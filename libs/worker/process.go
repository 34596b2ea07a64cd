package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/cpu"
	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/modelstore"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/shm"
	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// The transports by which workers reach each other's memory.
const (
	InProc = "inproc" // workers of one process
	Shm    = "shm"    // processes of one host
)

// ProcessConfig is what both worker services read from their file, environment and flags.
type ProcessConfig struct {
	ID        string           `yaml:"id" help:"name of this worker among the members; the host's name and the role if empty"`
	Listen    string           `yaml:"listen" help:"address of the gRPC server, host:port"`
	Advertise string           `yaml:"advertise" help:"address by which others reach the gRPC server; the listening one if empty"`
	Metrics   string           `yaml:"metrics" help:"address of the HTTP server for /metrics and /health; none if empty"`
	Drain     time.Duration    `yaml:"drain" help:"how long running sequences may go on after SIGTERM"`
	Etcd      []string         `yaml:"etcd" help:"endpoints of etcd"`
	NATS      string           `yaml:"nats" help:"URL of NATS"`
	Transport string           `yaml:"transport" help:"how KV blocks reach other workers: shm (processes of one host)"`
	Sockets   string           `yaml:"sockets" help:"folder for the sockets of the shm transport; the same for all workers of a host"`
	Engine    EngineConfig     `yaml:"engine"`
	Pool      Config           `yaml:"pool"`
	Queue     QueueConfig      `yaml:"queue"`
	Telemetry telemetry.Config `yaml:"telemetry"`
}

// EngineConfig says what a worker computes with.
type EngineConfig struct {
	Kind        string `yaml:"kind" help:"cpu"`
	Model       string `yaml:"model" help:"a GGUF file, or the name of a model that can be fetched"`
	Name        string `yaml:"name" help:"name under which the model is served; its own if empty"`
	BlockTokens int    `yaml:"block_tokens" help:"tokens per KV block: 16 to 128, a multiple of 16; equal on all workers of a model"`
	Threads     int    `yaml:"threads" help:"threads of one step; 0 is one per core"`
}

// QueueConfig bounds the prefill queue.
type QueueConfig struct {
	Jobs    int           `yaml:"jobs" help:"most jobs in the queue, those in work included"`
	AckWait time.Duration `yaml:"ack_wait" help:"how long a silent prefill worker keeps a job before another gets it"`
}

// DefaultProcessConfig is for one host with the usual ports of etcd and NATS.
func DefaultProcessConfig() ProcessConfig {
	q := prefillqueue.DefaultConfig()
	return ProcessConfig{
		Listen: "127.0.0.1:0", Drain: 30 * time.Second,
		Etcd: []string{"127.0.0.1:2379"}, NATS: nats.DefaultURL,
		Transport: Shm, Sockets: filepath.Join(os.TempDir(), "switchyard"),
		Engine:    EngineConfig{Kind: "cpu", Model: modelstore.DefaultModel, BlockTokens: 16},
		Pool:      DefaultConfig(),
		Queue:     QueueConfig{Jobs: q.MaxJobs, AckWait: q.AckWait},
		Telemetry: telemetry.DefaultConfig(),
	}
}

// Validate names the first field that cannot be.
func (c ProcessConfig) Validate() error {
	switch {
	case c.Listen == "":
		return errors.New(`listen is empty, want an address such as "127.0.0.1:7001"`)
	case len(c.Etcd) == 0:
		return errors.New("etcd is empty, want at least one endpoint")
	case c.NATS == "":
		return errors.New("nats is empty, want a URL")
	case c.Drain < 0:
		return fmt.Errorf("drain is %v, want at least 0", c.Drain)
	case c.Transport != InProc && c.Transport != Shm:
		return fmt.Errorf("transport is %q, want %s or %s", c.Transport, InProc, Shm)
	case c.Transport == Shm && c.Sockets == "":
		return errors.New("sockets is empty, want a folder")
	case c.Engine.Kind != "cpu":
		return fmt.Errorf("engine.kind is %q, want cpu", c.Engine.Kind)
	case c.Engine.Model == "":
		return errors.New("engine.model is empty, want a GGUF file or a name")
	}
	return errors.Join(c.Pool.Validate(), c.Telemetry.Validate())
}

// Shared is what workers of one process have in common. With the zero value a worker
// opens its own.
type Shared struct {
	Model     *cpu.Model // and the name it is served under
	ModelName string
	Network   *inproc.Network // for the inproc transport
	Discovery *discovery.Client
	NATS      *nats.Conn
	Telemetry *telemetry.Telemetry
}

// Process is a worker with all that surrounds it: what a worker service is given.
type Process struct {
	Worker    *Worker
	Instance  *instancev1.Instance
	Listener  net.Listener
	Server    *rpc.Server
	Discovery *discovery.Client
	Queue     *prefillqueue.Queue
	Telemetry *telemetry.Telemetry
	Log       *slog.Logger

	metrics net.Listener
	closers []func() error // in the order of opening
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
func Open(ctx context.Context, cfg ProcessConfig, role instancev1.Role, service string, shared Shared) (p *Process, err error) {
	if cfg.ID == "" {
		host, _ := os.Hostname() // an empty one is still an id with its role
		cfg.ID = host + "-" + service
	}
	p = &Process{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s %s: %w", service, cfg.ID, err), p.Close())
			p = nil
		}
	}()
	if err := cfg.Validate(); err != nil {
		return p, err
	}
	for _, step := range []func() error{
		func() error { return p.openTelemetry(ctx, cfg, service, shared) },
		func() error { return p.listen(cfg) },
		func() error { return p.openDiscovery(ctx, cfg, shared) },
		func() error { return p.openWorker(ctx, cfg, shared) },
		func() error { return p.openQueue(ctx, cfg, shared) },
		func() error { return p.describe(cfg, role) },
	} {
		if err := step(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// Close gives back what Open took, last first. Run must have ended.
func (p *Process) Close() error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	p.closers = nil
	return errors.Join(errs...)
}

func (p *Process) onClose(f func() error) { p.closers = append(p.closers, f) }

func (p *Process) openTelemetry(ctx context.Context, cfg ProcessConfig, service string, shared Shared) (err error) {
	if shared.Telemetry != nil {
		p.Telemetry, err = shared.Telemetry.For(service, cfg.ID)
	} else if p.Telemetry, err = telemetry.Open(ctx, cfg.Telemetry, service, cfg.ID); err == nil {
		p.onClose(func() error { return p.Telemetry.Shutdown(context.WithoutCancel(ctx)) })
	}
	if err != nil {
		return err
	}
	p.Log = p.Telemetry.Logger()
	p.Server = rpc.NewServer(rpc.ServerOptions{Logger: p.Log, Tracer: p.Telemetry.Tracer(), Meter: p.Telemetry.Meter()})
	return nil
}

func (p *Process) listen(cfg ProcessConfig) (err error) {
	if p.Listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return fmt.Errorf("listen is %q: %w", cfg.Listen, err)
	}
	p.onClose(func() error { return ignoreClosed(p.Listener.Close()) })
	if cfg.Metrics == "" {
		return nil
	}
	if p.metrics, err = net.Listen("tcp", cfg.Metrics); err != nil {
		return fmt.Errorf("metrics is %q: %w", cfg.Metrics, err)
	}
	p.onClose(func() error { return ignoreClosed(p.metrics.Close()) })
	return nil
}

// ignoreClosed is for what its server may have closed already.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Process) openDiscovery(ctx context.Context, cfg ProcessConfig, shared Shared) (err error) {
	if p.Discovery = shared.Discovery; p.Discovery != nil {
		return nil
	}
	d := discovery.DefaultConfig()
	d.Endpoints = cfg.Etcd
	if p.Discovery, err = discovery.Open(ctx, d, p.Log); err == nil {
		p.onClose(p.Discovery.Close)
	}
	return err
}

func (p *Process) openWorker(ctx context.Context, cfg ProcessConfig, shared Shared) (err error) {
	model, name := shared.Model, shared.ModelName
	if model == nil {
		if model, name, err = LoadModel(ctx, cfg.Engine); err != nil {
			return err
		}
		p.onClose(model.Close)
	}
	executor, err := model.Executor(cpu.Options{Model: name, BlockTokens: cfg.Engine.BlockTokens, Threads: cfg.Engine.Threads})
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	agent, err := newAgent(cfg, executor, shared.Network, p.Log)
	if err != nil {
		return err
	}
	p.onClose(agent.Close)
	p.Worker, err = New(cfg.Pool, Deps{Executor: executor, Agent: agent, Logger: p.Log})
	if err != nil {
		return err
	}
	p.onClose(p.Worker.Close)
	return p.Worker.observe(p.Telemetry.Meter())
}

func newAgent(cfg ProcessConfig, executor engine.Executor, network *inproc.Network, log *slog.Logger) (nixl.Agent, error) {
	c := nixl.Config{
		Name: cfg.ID, Incarnation: discovery.NewIncarnation(time.Now()), KVFormat: executor.Card().KVFormat, Logger: log,
	}
	if cfg.Transport == InProc {
		if network == nil {
			return nil, errors.New("transport is inproc, want shm: this process has no other workers")
		}
		return network.NewAgent(c)
	}
	if err := os.MkdirAll(cfg.Sockets, 0o700); err != nil {
		return nil, fmt.Errorf("sockets is %q: %w", cfg.Sockets, err)
	}
	return shm.New(shm.Config{Config: c, Socket: filepath.Join(cfg.Sockets, cfg.ID+".sock")})
}

func (p *Process) openQueue(ctx context.Context, cfg ProcessConfig, shared Shared) (err error) {
	connection := shared.NATS
	if connection == nil {
		if connection, err = prefillqueue.Connect(ctx, cfg.NATS, cfg.ID, p.Log); err != nil {
			return err
		}
		p.onClose(func() error { connection.Close(); return nil })
	}
	q := prefillqueue.DefaultConfig()
	q.KVFormat = p.Worker.Card().KVFormat
	q.MaxJobs, q.AckWait = cfg.Queue.Jobs, cfg.Queue.AckWait
	p.Queue, err = prefillqueue.Open(ctx, connection, q, p.Log)
	return err
}

// describe makes the instance that is announced.
func (p *Process) describe(cfg ProcessConfig, role instancev1.Role) error {
	endpoint, err := p.Worker.Endpoint(cfg.Transport)
	if err != nil {
		return err
	}
	address := cfg.Advertise
	if address == "" {
		address = p.Listener.Addr().String()
	}
	p.Instance = &instancev1.Instance{
		Id: p.Worker.ID().Name, Incarnation: p.Worker.ID().Incarnation, Role: role, Address: address,
		Started: timestamppb.Now(), Model: p.Worker.ModelCard(), Transfer: []*instancev1.TransferEndpoint{endpoint},
	}
	return nil
}

// Run serves metrics and follows the given members until ctx ends.
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
