// Package worker is what both worker services are made of: an engine, its block pool in
// memory that peers can reach, the scheduler over both, and what it tells the world of them.
//
// It does not decide where a prompt is computed and speaks no gRPC.
package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
)

// Config sizes a worker.
type Config struct {
	PoolTokens    int  `yaml:"tokens" help:"size of the KV pool, in tokens; memory is touched as it is used"`
	StepTokens    int  `yaml:"step_tokens" help:"most tokens that one step computes, prompts and outputs together"`
	RunningMax    int  `yaml:"running_max" help:"most sequences that hold blocks at once"`
	WaitingMax    int  `yaml:"waiting_max" help:"most sequences that wait for blocks; further ones are refused"`
	QuarantineMax int  `yaml:"quarantine_max" help:"blocks in quarantine per writer beyond which it is fenced whole; 0 is a quarter of the pool"`
	Poison        bool `yaml:"poison" help:"fill reserved blocks with NaN before a remote write, so that a missing byte shows"`
	Prefault      bool `yaml:"prefault" help:"touch all memory at start, so that no step waits for a page; costs start-up time and resident memory"`
}

// PoolTokensMax is the largest pool, beyond any memory: the keys and values of so many tokens are terabytes.
const PoolTokensMax = 1 << 28

// DefaultConfig suits the small embedded model.
func DefaultConfig() Config {
	d := scheduler.DefaultConfig()
	return Config{PoolTokens: 8192, StepTokens: d.StepTokens, RunningMax: d.Running, WaitingMax: d.Waiting}
}

// Validate names the first field that cannot be, by its key within the pool's section.
func (c Config) Validate() error {
	switch {
	case c.PoolTokens < 1 || c.PoolTokens > PoolTokensMax:
		return fmt.Errorf("tokens is %d, want 1 to %d", c.PoolTokens, PoolTokensMax)
	case c.RunningMax < 1:
		return fmt.Errorf("running_max is %d, want at least 1", c.RunningMax)
	case c.StepTokens <= c.RunningMax: // else decoding alone could fill every step
		return fmt.Errorf("step_tokens is %d, want more than running_max (%d)", c.StepTokens, c.RunningMax)
	case c.WaitingMax < 0:
		return fmt.Errorf("waiting_max is %d, want at least 0", c.WaitingMax)
	case c.QuarantineMax < 0:
		return fmt.Errorf("quarantine_max is %d, want at least 0", c.QuarantineMax)
	}
	return nil
}

func (c Config) scheduler() scheduler.Config {
	return scheduler.Config{StepTokens: c.StepTokens, Running: c.RunningMax, Waiting: c.WaitingMax}
}

// Deps are what a worker is built from. It owns the agent from New on.
type Deps struct {
	Executor engine.Executor
	Agent    nixl.Agent
	// Memory maps memory for the pool that the agent can register; nil is memory.Anonymous.
	Memory func(size int) (*memory.Memory, error)
	// Events says how the worker tells which blocks it holds; nil: it does not.
	Events *EventsConfig
	// Rank is which of its data-parallel group the worker is.
	Rank   uint32
	Logger *slog.Logger
}

// Worker is an engine with its pool, its memory and its agent.
type Worker struct {
	cfg    Config
	id     nixl.PeerID
	card   engine.Card
	memory *memory.Memory
	region nixl.Region
	probe  scratch

	Agent     nixl.Agent
	Pool      *block.Pool
	Scheduler *scheduler.Scheduler
	Events    *Events // nil: none

	poisoned atomic.Uint64 // blocks
}

// New registers the pool's memory with the agent, and some for probes, and binds the executor to the pool's.
func New(cfg Config, deps Deps) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("worker: pool.%w", err)
	}
	card := deps.Executor.Card()
	blocks := cfg.PoolTokens / card.Layout.BlockTokens
	sized := block.Config{
		Blocks: blocks, BlockTokens: card.Layout.BlockTokens, Chain: prefix.Next,
		QuarantineCap: cfg.QuarantineMax,
	}
	if deps.Events != nil {
		if err := deps.Events.Validate(); err != nil {
			return nil, fmt.Errorf("worker: events.%w", err)
		}
		sized.Changes, sized.ChangeContent = deps.Events.Changes, deps.Events.ZMQ.Endpoint != ""
	}
	pool, err := block.NewPool(sized)
	if err != nil {
		return nil, fmt.Errorf("worker: pool.tokens is %d: %w", cfg.PoolTokens, err)
	}
	w := &Worker{cfg: cfg, id: deps.Agent.ID(), card: card, Agent: deps.Agent, Pool: pool}
	w.Events = newEvents(deps.Events, deps.Rank, w)
	if err := w.openMemory(deps, blocks); err != nil {
		return nil, fmt.Errorf("worker: %d blocks of %d bytes: %w", blocks, card.Layout.BlockBytes(), err)
	}
	if err := deps.Executor.Bind(w.region); err != nil {
		return nil, errors.Join(fmt.Errorf("worker: bind the engine to its memory: %w", err), w.closeMemory())
	}
	if t, ok := deps.Executor.(tiered); ok {
		t.SetTierSink(pool)
	}
	if w.Scheduler, err = scheduler.New(cfg.scheduler(), deps.Executor, pool, deps.Logger); err != nil {
		return nil, errors.Join(err, w.closeMemory())
	}
	return w, nil
}

func (w *Worker) openMemory(deps Deps, blocks int) (err error) {
	open := deps.Memory
	if open == nil {
		open = memory.Anonymous
	}
	if err = w.openPool(open, deps.Agent, blocks); err != nil {
		return err
	}
	if w.probe, err = openScratch(open, deps.Agent); err != nil { // after the pool's, which is region 0
		return errors.Join(fmt.Errorf("memory for probes: %w", err), w.region.Close(), w.memory.Close())
	}
	return nil
}

func (w *Worker) openPool(open opener, agent nixl.Agent, blocks int) (err error) {
	if w.memory, err = open(blocks * w.card.Layout.BlockBytes()); err != nil {
		return err
	}
	if w.cfg.Prefault {
		err = w.memory.Prefault()
	}
	if err == nil {
		w.region, err = agent.Register(w.memory, w.card.Layout, blocks)
	}
	if err != nil {
		return errors.Join(err, w.memory.Close())
	}
	return nil
}

func (w *Worker) closeMemory() error {
	return errors.Join(w.probe.close(), w.region.Close(), w.memory.Close())
}

// ID names the worker and this life of it.
func (w *Worker) ID() nixl.PeerID { return w.id }

// Card is the engine's.
func (w *Worker) Card() engine.Card { return w.card }

// Layout is how a block lies in the worker's memory.
func (w *Worker) Layout() block.Layout { return w.card.Layout }

// RowBytes is how many bytes a token's keys and values count on a link.
func (w *Worker) RowBytes() int { return w.card.RowBytes() }

// LinkBytes is how many bytes those of blocks count on a link: themselves, unless the engine is a
// simulated one, whose blocks stand for larger ones.
func (w *Worker) LinkBytes(bytes int) int {
	return bytes * w.card.RowBytes() / w.card.Layout.RowBytes()
}

// Run runs the scheduler, the agent and the publishing of events until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	g, ctx := run.NewGroup(ctx)
	g.Go("scheduler", w.Scheduler.Run)
	g.Go("transfer agent", w.Agent.Run)
	w.Events.run(g)
	return g.Wait()
}

// MemoryEpoch is that of the pool's memory, as tickets carry it.
func (w *Worker) MemoryEpoch() uint64 { return w.region.Epoch() }

// Options are how a sequence shares blocks: only with its own model and cache salt.
func (w *Worker) Options(salt string) scheduler.Options {
	return scheduler.Options{
		Namespace: prefix.Namespace(w.card.Model, "", salt),
		Root:      prefix.Root(w.card.Model, "", salt),
	}
}

// Poison fills blocks with NaN where the worker is configured to, so that a read of a
// byte that was never written shows in the result.
func (w *Worker) Poison(refs []block.Ref) {
	if !w.cfg.Poison {
		return
	}
	size := w.card.Layout.BlockBytes()
	for _, r := range refs {
		fillNaN(w.region.Bytes()[int(r.ID)*size:][:size])
	}
	w.poisoned.Add(uint64(len(refs)))
}

func fillNaN(b []byte) {
	for i := 0; i+4 <= len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], math.Float32bits(float32(math.NaN())))
	}
}

// Close gives the memory back. Run must have ended.
func (w *Worker) Close() error {
	return errors.Join(w.Events.close(), w.Agent.Close(), w.closeMemory())
}
