package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
	"github.com/switchyard-llm/switchyard/libs/worker"
	"github.com/switchyard-llm/switchyard/services/decodeworker"
	"github.com/switchyard-llm/switchyard/services/prefillworker"
	"github.com/switchyard-llm/switchyard/services/processor"
)

// served is one of the models, with what its services have in common.
type served struct {
	name    string
	weights *cpu.Model // nil: simulated
	text    *processor.Model
	engine  *simRun // nil: the CPU engine
	tag     string  // of the ids of its services; empty for the first model
}

// checkNames refuses names that cannot be, before a model is loaded.
func (c *serveCmd) checkNames() error {
	models := len(c.Model)
	if c.engine != nil {
		models = len(c.shapes)
	}
	if len(c.Name) > models {
		return fmt.Errorf("--served-name is given %d times, want at most one for each of %d models", len(c.Name), models)
	}
	for i, name := range c.Name {
		if name != "" && slices.Contains(c.Name[:i], name) {
			return errTwice(name)
		}
	}
	return nil
}

func errTwice(name string) error {
	return fmt.Errorf("two models are served as %q: give one another name with --served-name", name)
}

// loadModels loads the weights of each model once for all its workers, and the text side for its processor.
func (s *server) loadModels(ctx context.Context) error {
	sources, load := s.cmd.Model, s.loadModel
	if s.cmd.engine != nil {
		sources, load = s.cmd.shapes, s.loadSim
	}
	for i, source := range sources {
		m := &served{}
		if i < len(s.cmd.Name) {
			m.name = s.cmd.Name[i]
		}
		if err := load(ctx, m, source); err != nil {
			return err
		}
		if slices.ContainsFunc(s.models, func(other *served) bool { return other.name == m.name }) {
			return errTwice(m.name)
		}
		if i > 0 {
			m.tag = s.newTag(m.name)
		}
		s.models = append(s.models, m)
	}
	return nil
}

// loadModel loads a model for the CPU engine. An empty name becomes its own.
func (s *server) loadModel(ctx context.Context, m *served, source string) (err error) {
	if m.weights, m.name, err = worker.LoadModel(ctx, worker.EngineConfig{Model: source, Name: m.name}); err != nil {
		return err
	}
	s.onClose(m.weights.Close)
	m.text, err = processor.LoadModel(ctx, source, m.name)
	return err
}

// loadSim makes the text side of a simulated model. An empty name becomes its shape's.
func (s *server) loadSim(ctx context.Context, m *served, shape string) (err error) {
	run := *s.cmd.engine
	run.Shape = shape
	if slices.Contains(testfiles.Models(), run.Tokenizer) {
		if run.Tokenizer, err = testfiles.Path(ctx, run.Tokenizer+".json"); err != nil {
			return err
		}
	}
	m.engine = &run
	if m.text, err = processor.SimModel(shape, m.name, run.Tokenizer); err == nil {
		m.name = m.text.Name
	}
	return err
}

// tagBytes is the longest part of a name that is of use in an id.
const tagBytes = 40

// newTag makes a part of an id out of a model's name, another than the others have.
func (s *server) newTag(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '-'
	}, name)
	plain = cmp.Or(strings.Trim(plain[:min(len(plain), tagBytes)], "-"), "model")
	tag := plain
	for n := 2; slices.ContainsFunc(s.models, func(m *served) bool { return m.tag == tag }); n++ {
		tag = fmt.Sprintf("%s-%d", plain, n)
	}
	return tag
}

// id names the n-th service of a role, such as decode-0, or decode-tiny-0 of a further model.
func (m *served) id(role string, n int) string {
	if m.tag != "" {
		role += "-" + m.tag
	}
	return fmt.Sprintf("%s-%d", role, n)
}

// id is a service's name among the members: of its own where other servers may have such services, too.
func (s *server) id(name string) string {
	if len(s.cmd.Etcd) == 0 {
		return name
	}
	host, _ := os.Hostname() // without it the process still tells servers of a host apart
	return fmt.Sprintf("%s-%s-%d", name, host, os.Getpid())
}

// cpuBlockTokens is the block size of the CPU engine's pools.
const cpuBlockTokens = 16

func (m *served) blockTokens() int {
	if m.engine != nil {
		return m.engine.blockTokens
	}
	return cpuBlockTokens
}

// ranks are how many instances a worker is.
func (m *served) ranks() int {
	if m.engine != nil {
		return m.engine.dp
	}
	return 1
}

// openModel opens the services of a model: its workers and its processor, which comes last.
func (s *server) openModel(ctx context.Context, m *served) (parts []part, processing *processor.Service, err error) {
	shared := s.shared
	shared.Model, shared.ModelName = m.weights, m.name
	for i := range s.cmd.Prefill * m.ranks() {
		cfg := prefillworker.DefaultConfig()
		s.workerConfig(&cfg.ProcessConfig, m, "prefill", i)
		if r := m.engine; r != nil {
			r.worker(&cfg.ProcessConfig, r.prefillTP)
			cfg.Jobs = simJobs
		}
		prefill, err := prefillworker.Open(ctx, cfg, shared)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, part{cfg.ID, prefill.Run})
	}
	for i := range s.cmd.Decode * m.ranks() {
		cfg := decodeworker.DefaultConfig()
		s.workerConfig(&cfg.ProcessConfig, m, "decode", i)
		if r := m.engine; r != nil {
			r.worker(&cfg.ProcessConfig, r.TP)
		}
		decode, err := decodeworker.Open(ctx, cfg, shared)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, part{cfg.ID, decode.Run})
		s.ready = append(s.ready, func(ctx context.Context) error { return decode.Met(ctx, s.cmd.Prefill*m.ranks()) })
	}
	cfg := processor.DefaultConfig()
	cfg.ID, cfg.Listen = s.id(m.id("processor", 0)), "127.0.0.1:0"
	processing, err = processor.Open(ctx, cfg, processor.Shared{Shared: s.shared.Shared, Model: m.text, NATS: s.shared.NATS})
	if err != nil {
		return nil, nil, err
	}
	return append(parts, part{cfg.ID, processing.Run}), processing, nil
}

// workerConfig sets up the i-th instance of a role: a worker, or a rank of one.
func (s *server) workerConfig(c *worker.ProcessConfig, m *served, role string, i int) {
	ranks := m.ranks()
	c.ID = s.id(m.id(role, i/ranks))
	if ranks > 1 {
		c.Engine.DPRank, c.Engine.DPGroup = i%ranks, c.ID
		c.ID = fmt.Sprintf("%s.dp%d", c.ID, i%ranks)
	}
	c.Listen, c.Transport = "127.0.0.1:0", worker.InProc
	c.Engine.Name, c.Engine.BlockTokens, c.Pool.Poison = m.name, cpuBlockTokens, s.cmd.Poison
}

func (s *server) startTimeout() time.Duration { return startTimeout * time.Duration(len(s.models)) }

// names are those of all models, as a person reads them.
func (s *server) names() string {
	names := make([]string, len(s.models))
	for i, m := range s.models {
		names[i] = m.name
	}
	return strings.Join(names, ", ")
}

// each says of a number that it is each model's, where there are several.
func (s *server) each() string {
	if len(s.models) > 1 {
		return " each"
	}
	return ""
}
