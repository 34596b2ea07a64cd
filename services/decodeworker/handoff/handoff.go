// Package handoff carries out remote prefills for one decode worker. It reserves blocks,
// has them filled in the style of its model, commits what was written, and brings back
// every block whose writer is in doubt. In the style
//
//   - push it queues the job and answers the claims of prefill workers;
//   - pull it asks a prefill worker for the prompt, reads what that one holds and releases it;
//   - rendezvous it asks a prefill worker and gives it the claim's ticket with the call.
//
// It does not decide where a prompt is computed, and what it cannot finish it gives back
// to its caller, who computes the prompt locally: a hand-off never makes a request fail.
//
// Run owns its goroutines. State of a transfer is the pool's; this package keeps only
// who waits for it.
package handoff

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/worker"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// Config holds the times and bounds of a hand-off.
type Config struct {
	Deadline  time.Duration `yaml:"deadline" help:"how long a sequence waits for its remote prefill before the prompt is computed here, beside the time per token"`
	PerToken  time.Duration `yaml:"deadline_per_token" help:"how much longer it waits for each token of the prompt that is not cached here"`
	Lease     time.Duration `yaml:"lease" help:"how long a claim holds without being renewed"`
	Later     time.Duration `yaml:"later" help:"after which time a prefill worker that was refused a claim asks again"`
	Proof     time.Duration `yaml:"proof" help:"how long a writer in doubt has to say that it is quiet before it is fenced"`
	GrantsMax int           `yaml:"grants_max" help:"most claims granted for one transfer; after that the prompt is computed here"`
	Affinity  time.Duration `yaml:"affinity" help:"longest time a job is kept for the prefill worker that holds most of its prefix before any other may take it (push); 0: not at all"`
}

// DefaultConfig is for workers on one network.
func DefaultConfig() Config {
	return Config{
		Deadline: 30 * time.Second, PerToken: 20 * time.Millisecond, Lease: 5 * time.Second, Later: 200 * time.Millisecond,
		Proof: 500 * time.Millisecond, GrantsMax: 3, Affinity: 50 * time.Millisecond,
	}
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"deadline", c.Deadline}, {"lease", c.Lease}, {"later", c.Later}, {"proof", c.Proof}} {
		if f.value <= 0 {
			return fmt.Errorf("%s is %v, want more than 0", f.name, f.value)
		}
	}
	if c.PerToken < 0 {
		return fmt.Errorf("deadline_per_token is %v, want at least 0", c.PerToken)
	}
	if c.Affinity < 0 {
		return fmt.Errorf("affinity is %v, want at least 0", c.Affinity)
	}
	if c.GrantsMax < 1 {
		return fmt.Errorf("grants_max is %d, want at least 1", c.GrantsMax)
	}
	return nil
}

// Queue is where jobs for prefill workers go.
type Queue interface {
	// Publish adds a job and answers its number in the queue.
	Publish(ctx context.Context, job *transferv1.RemotePrefillRequest, messageID string) (uint64, error)
	// PublishFor adds one that only the prefill worker of that name gets.
	PublishFor(ctx context.Context, worker string, job *transferv1.RemotePrefillRequest, messageID string) (uint64, error)
	// Delete takes a job back; nil if it is not there.
	Delete(ctx context.Context, number uint64) error
}

// Deps are what a coordinator works with.
type Deps struct {
	Worker *worker.Worker
	// Style is how the model's prompts are handed off; push if empty.
	Style worker.Style
	Queue Queue // push only
	// PrefillWorkers are the live ones of the same style and KV format.
	PrefillWorkers func() []*instancev1.Instance
	// Client reaches the prefill worker at an address. Pull and rendezvous only.
	Client func(address string) (prefillworkerv1.PrefillWorkerClient, error)
	// ReadAtLeast is Ticket.read_at_least. Nil: 0.
	ReadAtLeast func() int
	// ComputeTime is how long a prefill worker computes so many tokens. Nil: jobs are kept for nobody.
	ComputeTime func(tokens int) time.Duration
	// Abort asks the prefill worker at an address, if it is still that incarnation, to be
	// quiet about an attempt. A nil answer is the writer's word.
	Abort func(ctx context.Context, address string, r *prefillworkerv1.AbortRequest) error
	// Died says whether the process that served at an address has ended. Nil: nobody knows.
	Died   func(ctx context.Context, address string) bool
	Logger *slog.Logger
	Tracer trace.TracerProvider
}

// Coordinator carries out the remote prefills of one decode worker.
type Coordinator struct {
	cfg    Config
	deps   Deps
	pool   *block.Pool
	agent  nixl.Agent
	log    *slog.Logger
	tracer trace.Tracer

	// moving is held while the pool's memory moves away from a writer; who gives or commits a
	// ticket reads.
	moving   sync.RWMutex
	starving atomic.Int32 // sequences that wait for blocks out of QUARANTINE

	sweep   chan struct{} // capacity 1: look at QUARANTINE now
	deletes chan uint64   // jobs to take back; a full one drops, their claims get GONE
	cancels chan *try     // whose prefill worker is to be told; a full one drops, their leases end
	calls   sync.WaitGroup

	mu        sync.Mutex // guards all below
	transfers map[block.TransferID]*transfer
	count     uint64                    // transfers begun
	writers   map[block.WriterID]writer // of which some ticket may be in doubt, or that live
	settling  map[uint64]bool           // tickets whose proof is being asked for
	settled   chan struct{}             // closed and replaced whenever blocks left QUARANTINE
	report    report
	tries     map[*try]struct{}         // calls of prefill workers under way
	standings map[nixl.PeerID]*standing // of prefill workers
	reads     []read                    // of our own that may still move bytes
	closing   bool                      // no call begins any more
}

// writer is what is known of a prefill worker that claimed.
type writer struct {
	peer    nixl.PeerID
	address string
	gone    bool      // its connection has ended: forgotten once no ticket of it is in doubt
	fenced  bool      // it gets no more tickets
	warned  time.Time // that its blocks stay in quarantine
}

// New makes a coordinator. Its claims and notes are served from Run on.
func New(cfg Config, deps Deps) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("handoff: %w", err)
	}
	return &Coordinator{
		cfg: cfg, deps: deps, pool: deps.Worker.Pool, agent: deps.Worker.Agent, log: deps.Logger,
		tracer:    deps.Tracer.Tracer("switchyard/decodeworker"),
		sweep:     make(chan struct{}, 1),
		deletes:   make(chan uint64, 1024),
		transfers: make(map[block.TransferID]*transfer),
		writers:   make(map[block.WriterID]writer),
		settling:  make(map[uint64]bool),
		settled:   make(chan struct{}),
		report:    newReport(),
		cancels:   make(chan *try, 1024),
		tries:     make(map[*try]struct{}),
		standings: make(map[nixl.PeerID]*standing),
	}, nil
}

// Run receives completion notes and looks after QUARANTINE until ctx ends.
func (c *Coordinator) Run(ctx context.Context) error {
	g, ctx := run.NewGroup(ctx)
	g.Go("notes", c.receive)
	g.Go("quarantine", c.sweepLoop)
	g.Go("queue deletions", c.deleteLoop)
	g.Go("cancels", c.cancelLoop)
	g.Go("calls", c.endCalls)
	return g.Wait()
}

// deleteLoop takes jobs back that nobody waits for any more.
func (c *Coordinator) deleteLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case number := <-c.deletes:
			bounded, cancel := context.WithTimeout(ctx, time.Second)
			if err := c.deps.Queue.Delete(bounded, number); err != nil && !errors.Is(err, context.Canceled) {
				c.log.Warn("a withdrawn job stays in the prefill queue; its claim will be refused", "error", err)
			}
			cancel()
		}
	}
}

func (c *Coordinator) sweepSoon() {
	select {
	case c.sweep <- struct{}{}:
	default:
	}
}

func (c *Coordinator) find(id block.TransferID) *transfer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transfers[id]
}
