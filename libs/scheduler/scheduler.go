// Package scheduler runs sequences on an executor: it admits them into a block pool,
// forms a batch for every step (continuous batching, chunked prefill under a token
// budget), draws the tokens and hands them to each sequence's sink.
//
// It knows nothing of the network, of hand-offs or of text: whoever owns a sequence
// decides whether its prompt is computed here or attached after a remote prefill.
//
// Run owns the only goroutine. It alone touches the running sequences and calls the
// executor; everything that other goroutines may touch is behind one mutex.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/sampling"
)

var (
	// ErrBusy means that too many sequences wait already.
	ErrBusy = errors.New("scheduler: too many sequences wait")
	// ErrClosed means that the scheduler has stopped or never ran.
	ErrClosed = errors.New("scheduler: stopped")
)

// Config bounds what the scheduler does at once.
type Config struct {
	// StepTokens is how many tokens a step computes at most, decode and prompt together;
	// more than Running, so that decoding leaves room for prompts.
	StepTokens int
	// Running is how many sequences may be admitted at once.
	Running int
	// Waiting is how many sequences may wait for admission; more are refused with ErrBusy.
	Waiting int
}

// DefaultConfig suits the CPU engine: a step stays well under half a second on one core.
func DefaultConfig() Config { return Config{StepTokens: 128, Running: 64, Waiting: 1024} }

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	switch {
	case c.Running < 1:
		return fmt.Errorf("running is %d, want at least 1", c.Running)
	case c.StepTokens <= c.Running: // else decoding alone could fill every step
		return fmt.Errorf("step_tokens is %d, want more than running (%d)", c.StepTokens, c.Running)
	case c.Waiting < 0:
		return fmt.Errorf("waiting is %d, want at least 0", c.Waiting)
	}
	return nil
}

// passAfter is how long a waiting sequence that does not fit lets those behind it pass.
const passAfter = 200 * time.Millisecond

// Scheduler forms batches for one executor over one pool.
type Scheduler struct {
	cfg     Config
	exec    engine.Executor
	card    engine.Card
	pool    *block.Pool
	log     *slog.Logger
	wake    chan struct{} // capacity 1: something changed for the step loop
	between chan func()   // unbuffered: what is to run while no step does

	mu       sync.Mutex  // guards all below
	waiting  []*Sequence // by priority, then arrival
	admitted int         // sequences that hold a table
	active   int         // tokens of those
	missing  int         // prompt rows that those lack
	joining  []*Sequence // ready to run, not yet seen by the loop
	closed   error
	report   Report

	// Owned by Run.
	running   []*Sequence // by priority, then start
	aloneLast bool        // the last step was for one sequence that runs alone
	logits    [][]float32
	sampler   sampling.Sampler
}

// New makes a scheduler for an executor that is bound to the pool's memory already.
func New(cfg Config, exec engine.Executor, pool *block.Pool, log *slog.Logger) (*Scheduler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return &Scheduler{
		cfg: cfg, exec: exec, card: exec.Card(), pool: pool, log: log,
		wake: make(chan struct{}, 1), between: make(chan func()),
	}, nil
}

// Card is the executor's.
func (s *Scheduler) Card() engine.Card { return s.card }

// Run makes steps until ctx ends. Every sequence that still exists then ends with ErrClosed.
func (s *Scheduler) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case f := <-s.between:
			f()
		default:
		}
		if s.step(ctx) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case f := <-s.between:
			f()
		}
	}
	s.close()
	return nil
}

// Between runs f while no step does, so that nothing computes in the pool's memory, and
// waits until it has returned. It returns ctx's error when f was not begun in time.
func (s *Scheduler) Between(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case s.between <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kick makes the scheduler look at its waiting sequences again: blocks came back
// by a way that it does not see.
func (s *Scheduler) Kick() {
	s.mu.Lock()
	s.admit(time.Now())
	s.mu.Unlock()
	s.signal()
}

func (s *Scheduler) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Scheduler) close() {
	s.mu.Lock()
	s.closed = ErrClosed
	for _, q := range s.waiting {
		q.admitErr = ErrClosed
		close(q.admitted)
	}
	s.waiting = nil
	ending := slices.Concat(s.running, s.joining)
	s.running, s.joining = nil, nil
	s.mu.Unlock()
	for _, q := range ending {
		s.end(q, ErrClosed)
	}
}
