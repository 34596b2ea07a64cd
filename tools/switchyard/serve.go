package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/modelstore"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	"github.com/switchyard-llm/switchyard/libs/worker"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
	"github.com/switchyard-llm/switchyard/services/frontend"
	"github.com/switchyard-llm/switchyard/services/planner"
)

// serveCmd runs the five services in one process.
type serveCmd struct {
	Model     []string `help:"A GGUF file, or the name of a model that can be fetched. Given again, another model is served beside it." default:"${model}" sep:"none"`
	Name      []string `help:"Name under which the model is served; its own if not given. The second is for the second model, and so on." name:"served-name" placeholder:"NAME" sep:"none"`
	Engine    string   `help:"Engine of the workers: cpu, or sim, which takes the time of a GPU and computes nothing." enum:"cpu,sim" default:"cpu"`
	HTTP      string   `help:"Address of the OpenAI server." default:"127.0.0.1:8000" name:"http"`
	APIKey    []string `help:"A key of which OpenAI clients must send one as their bearer token; SWITCHYARD_API_KEYS has a comma list, too. Default: none is asked for." name:"api-key" sep:"none" placeholder:"KEY"`
	Frontend  string   `help:"Configuration of the frontend, such as deploy/config/frontend.yaml; addresses and etcd in it do not count." type:"path" placeholder:"FILE"`
	Decode    int      `help:"Decode workers of each model. 0 serves those that others run, see --etcd and --nats." default:"1"`
	Prefill   int      `help:"Prefill workers of each model." default:"1"`
	Split     string   `help:"Where prompts are computed: cost, threshold, always or never. Empty leaves what is in etcd; cost at first." placeholder:"POLICY"`
	Data      string   `help:"Folder for what this server keeps." default:"${data}" type:"path"`
	Etcd      []string `help:"Endpoints of an external etcd; an embedded one if none." placeholder:"HOST:PORT"`
	NATS      string   `help:"URL of an external NATS; an embedded one if empty." name:"nats"`
	Poison    bool     `help:"Fill reserved blocks with NaN before a remote write."`
	TraceFile string   `help:"Append spans to this file; see the trace command." type:"path"`
	OTLP      string   `help:"Where spans go over OTLP gRPC, such as http://localhost:4317." name:"otlp" placeholder:"URL"`
	LogLevel  string   `help:"debug, info, warn or error." default:"warn"`
	LogFormat string   `help:"text or json." default:"text"`

	simFlags `embed:""`

	frontend frontend.Config // read by check
}

// startTimeout bounds how long the start may take once the models are there, for each of them.
const startTimeout = 10 * time.Second

// server is what serveCmd has opened.
type server struct {
	cmd     *serveCmd
	out     io.Writer
	shared  worker.Shared // of all models
	models  []*served
	etcd    []string
	nats    string
	closers []func() error // in the order of opening
	ready   []func(ctx context.Context) error
	url     string
}

// Run implements the command.
func (c *serveCmd) Run(ctx context.Context, out io.Writer) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	s := &server{cmd: c, out: out}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.takeFolder(); err != nil {
		return err
	}
	if err := s.loadModels(ctx); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.startTimeout())
	defer cancel()
	if err := s.openCommon(bounded); err != nil {
		return err
	}
	services, err := s.openServices(bounded)
	if err != nil {
		return err
	}
	return s.run(ctx, services)
}

func (c *serveCmd) check() error {
	if c.Decode < 0 || c.Decode == 0 && (len(c.Etcd) == 0 || c.NATS == "") {
		return fmt.Errorf("--decode is %d, want at least 1, or 0 with --etcd and --nats of decode workers elsewhere", c.Decode)
	}
	if c.Prefill < 0 {
		return fmt.Errorf("--prefill is %d, want at least 0", c.Prefill)
	}
	if c.Split != "" && !slices.Contains(disagg.Names(), c.Split) {
		return fmt.Errorf("--split is %q, want one of %q", c.Split, disagg.Names())
	}
	if err := c.read(c.Engine); err != nil {
		return err
	}
	if c.engine != nil && !slices.Equal(c.Model, []string{modelstore.DefaultModel}) {
		return fmt.Errorf("--model is %q, want none with --engine sim: --model-shape says what is simulated", c.Model[0])
	}
	if err := c.checkNames(); err != nil {
		return err
	}
	if err := c.readFrontend(); err != nil {
		return err
	}
	// A port that is taken should not show only after the model was loaded.
	l, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return fmt.Errorf("--http is %q: %w", c.HTTP, err)
	}
	return l.Close()
}

func (s *server) onClose(f func() error) { s.closers = append(s.closers, f) }

func (s *server) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// takeFolder makes the data folder this server's own for as long as it runs.
func (s *server) takeFolder() error {
	if err := os.MkdirAll(s.cmd.Data, 0o700); err != nil {
		return fmt.Errorf("--data is %q: %w", s.cmd.Data, err)
	}
	release, err := lockFolder(s.cmd.Data)
	if err != nil {
		return fmt.Errorf("--data is %q: %w", s.cmd.Data, err)
	}
	s.onClose(release)
	return nil
}

// openCommon opens what all services share.
func (s *server) openCommon(ctx context.Context) error {
	cfg := telemetry.Config{OTLPEndpoint: s.cmd.OTLP, TraceFile: s.cmd.TraceFile, LogLevel: s.cmd.LogLevel, LogFormat: s.cmd.LogFormat}
	t, err := telemetry.Open(ctx, cfg, "switchyard", "serve")
	if err != nil {
		return err
	}
	s.onClose(func() error { return t.Shutdown(context.Background()) })
	s.shared.Telemetry = t
	if err := s.openServers(ctx); err != nil {
		return err
	}
	d := discovery.DefaultConfig()
	d.Endpoints = s.etcd
	if s.shared.Discovery, err = discovery.Open(ctx, d, t.Logger()); err != nil {
		return err
	}
	s.onClose(s.shared.Discovery.Close)
	if s.shared.NATS, err = broker.Connect(ctx, s.nats, "serve", t.Logger()); err != nil {
		return err
	}
	s.onClose(func() error { s.shared.NATS.Close(); return nil })
	s.shared.Network = inproc.NewNetwork()
	return s.setPolicy(ctx)
}

// folder names an empty place of the data folder for as long as this server runs. What one
// that was killed left there goes first: neither its members nor its jobs live any more.
func (s *server) folder(name string) (string, error) {
	dir := filepath.Join(s.cmd.Data, name)
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("--data is %q: %w", s.cmd.Data, err)
	}
	s.onClose(func() error { return os.RemoveAll(dir) })
	return dir, nil
}

// openServers starts the embedded etcd and NATS where no others are named.
func (s *server) openServers(ctx context.Context) error {
	if s.etcd = s.cmd.Etcd; len(s.etcd) == 0 {
		dir, err := s.folder("etcd")
		if err != nil {
			return err
		}
		etcd, err := embedded.StartEtcd(ctx, embedded.EtcdConfig{Dir: dir})
		if err != nil {
			return err
		}
		s.onClose(etcd.Close)
		s.etcd = []string{etcd.Endpoint()}
	}
	if s.nats = s.cmd.NATS; s.nats == "" {
		dir, err := s.folder("nats")
		if err != nil {
			return err
		}
		nats, err := embedded.StartNATS(ctx, embedded.NATSConfig{Dir: dir})
		if err != nil {
			return err
		}
		s.onClose(nats.Close)
		s.nats = nats.URL()
	}
	return nil
}

// setPolicy writes the policy of the command line to etcd, where it can be changed live.
func (s *server) setPolicy(ctx context.Context) error {
	if s.cmd.Split == "" {
		return nil
	}
	for _, m := range s.models {
		policy := disagg.DefaultPolicy(m.blockTokens())
		policy.Policy = s.cmd.Split
		if err := s.shared.Discovery.PutJSON(ctx, discovery.ConfigKey(m.name, "disagg"), policy); err != nil {
			return err
		}
	}
	return nil
}

// part is a service that was opened.
type part struct {
	name string
	run  func(context.Context) error
}

// openServices opens the services; their order is that of their start.
func (s *server) openServices(ctx context.Context) (parts []part, err error) {
	pl := planner.DefaultConfig()
	pl.ID, pl.Listen = s.id(pl.ID), "127.0.0.1:0"
	planning, err := planner.Open(ctx, pl, s.shared.Shared)
	if err != nil {
		return nil, err
	}
	parts = append(parts, part{"planner", planning.Run})
	f := s.cmd.frontend
	f.ID, f.HTTP, f.Listen = s.id(f.ID), s.cmd.HTTP, "127.0.0.1:0"
	processors := map[string]processorv1.ProcessorServer{}
	for _, m := range s.models {
		more, processing, err := s.openModel(ctx, m)
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
		processors[m.name] = processing.Server()
		s.ready = append(s.ready, processing.Ready)
	}
	front, err := frontend.Open(ctx, f, frontend.Shared{Shared: s.shared.Shared, Processors: processors})
	if err != nil {
		return nil, err
	}
	s.ready, s.url = append(s.ready, front.Ready), "http://"+front.Addr().String()
	return append(parts, part{"frontend", front.Run}), nil
}

// run runs the services until ctx ends. They end in the reverse order of their start, so
// that each can finish its work with those it needs.
func (s *server) run(ctx context.Context, parts []part) error {
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var ends []func() error
	for _, p := range parts {
		inner, stop := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan error, 1)
		go func() {
			err := p.run(inner)
			if err == nil && failed.Err() == nil {
				err = fmt.Errorf("%s ended", p.name)
			}
			fail(err)
			done <- err
		}()
		ends = append(ends, func() error { stop(); return <-done })
	}
	err := s.announce(failed)
	if err == nil {
		<-failed.Done()
	}
	var errs []error
	for _, end := range slices.Backward(ends) {
		errs = append(errs, end())
	}
	if ctx.Err() != nil {
		err = nil // it was asked to end
	}
	return errors.Join(append(errs, err)...)
}

// announce waits until requests can be answered, and says so.
func (s *server) announce(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, s.startTimeout())
	defer cancel()
	for _, ready := range s.ready {
		if err := ready(bounded); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("not ready within %v: %w", s.startTimeout(), err)
		}
	}
	e := endpoints{PID: os.Getpid(), URL: s.url, Etcd: s.etcd, NATS: s.nats}
	if err := e.write(s.cmd.Data); err != nil {
		return fmt.Errorf("--data is %q: %w", s.cmd.Data, err)
	}
	s.onClose(func() error {
		err := os.Remove(filepath.Join(s.cmd.Data, endpointsFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	_, err := fmt.Fprintf(s.out, "ready: %s serves %s (%d decode, %d prefill%s)\n", s.url, s.names(), s.cmd.Decode, s.cmd.Prefill, s.each())
	return err
}
