// Package router picks the decode worker of a request by predicted cost, and books it. It
// also ranks the prefill workers that hold a prefix, as a hint.
//
// It knows which blocks each worker holds (an index that the workers' events fill, or
// what it sent to those that publish none), each worker's last load report, and the
// bookings since then, its own and those that other processors share. It is not a client: it
// moves no message and starts no goroutine. One mutex guards a Router; its methods may be
// called from any goroutine.
//
// The cost of a candidate, lowest wins, is
//
//	prefill_weight · uncached prompt + active prefill + decode_weight · active decode + stall_weight · stall
//
// each in predicted milliseconds of that worker, or in blocks while no worker's speed is
// known; see docs/routing.md. Select and book is one step: two requests at once never
// see the same idle worker.
package router

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// ErrNoWorker is returned when no worker can take a request.
var ErrNoWorker = errors.New("no worker can take the request")

// WorkerID names one life of a worker; each data-parallel rank is a worker of its own.
type WorkerID struct{ Name, Incarnation string }

func (w WorkerID) String() string { return w.Name + "/" + w.Incarnation }

// ProcessorID names one life of a processor.
type ProcessorID struct{ Name, Incarnation string }

// Worker is what the router needs to know of a candidate.
type Worker struct {
	ID WorkerID
	// Model is the served name; LoRAs are the adapters that it can apply.
	Model string
	LoRAs []string
	// BlockTokens is the size of its blocks, in tokens; at least 1.
	BlockTokens int
	// PoolBlocks is the size of its pool. 0: not known.
	PoolBlocks int
	// ContextTokens is the longest sequence, prompt and output together. 0: not known.
	ContextTokens int
	// Events says that the worker publishes what it holds; of another the router assumes that
	// it holds for a while what was sent there.
	Events bool
}

// Request is what a worker is picked for.
type Request struct {
	// Model is the served name, LoRA the adapter on it; empty: none.
	Model, LoRA string
	// Salt separates the prefixes of tenants.
	Salt string
	// Tokens are the prompt, and what was generated already after a migration; at least one.
	Tokens []sequence.Token
	// MaxOutput is the most tokens that will be generated. 0: not known.
	MaxOutput int
	// Session keeps requests together with the policy session. Empty: none.
	Session string
	// Worker is the name of the only worker wanted. Empty: any.
	Worker string
	// Avoid holds workers that refused this request; they are not picked.
	Avoid []WorkerID
}

// Options are what a router works with beside its configuration.
type Options struct {
	// Self is this processor, as workers name it in their reports.
	Self ProcessorID
	// Random breaks ties and draws with a temperature. Required.
	Random *rand.Rand
	// Now is the clock by which assumed prefixes end. Required.
	Now func() time.Time
	// Share tells the other processors of this one's bookings. It is called under the router's mutex and
	// must neither block nor call the router; the chain is only valid during the call. Nil: there are none.
	Share func(Shared)
}

// Router picks workers.
type Router struct {
	cfg    Config
	opt    Options
	sizes  atomic.Pointer[[]groupKey] // of the groups, for readers without the mutex
	spare  sync.Pool                  // of *query
	held   *prefix.Index              // what the decode workers hold
	remote *prefix.Index              // what the prefill workers hold

	mu       sync.Mutex // guards all below
	weights  Weights
	groups   []*group
	workers  []*worker // in no order; workers[i] has seats[i]
	seats    []seat
	byID     map[WorkerID]*worker
	waits    waits
	turn     int
	assuming map[*assumed]*Worker // of those that publish no events
	expired  time.Time            // when assumed prefixes were looked at last
	counts   Counts
	prefills []*prefill     // in the order of AddPrefill
	chain    []block.Hash   // scratch
	matches  prefix.Matches // scratch
}

// Counts are since start.
type Counts struct {
	// Decisions is how many requests were booked, HitBlocks how many blocks of their prompts the index said
	// were held, PendingBlocks how many more it expected to be computed by then.
	Decisions, HitBlocks, PendingBlocks uint64
	// Corrections are requests of which a worker held less than its events had said; CorrectedBlocks the blocks taken out for it.
	Corrections, CorrectedBlocks uint64
	// Shared counts bookings of other processors.
	Shared uint64
}

// New returns a router without workers.
func New(cfg Config, opt Options) (*Router, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	r := &Router{
		cfg: cfg, opt: opt, weights: cfg.Weights, byID: map[WorkerID]*worker{}, assuming: map[*assumed]*Worker{},
		held: prefix.NewIndex(prefix.IndexConfig{Bytes: cfg.MemoryBytes}), remote: prefix.NewIndex(prefix.IndexConfig{Bytes: cfg.MemoryBytes}),
	}
	r.waits.first = map[block.Hash]*wait{}
	r.sizes.Store(&[]groupKey{})
	r.spare.New = func() any { return new(query) }
	return r, nil
}

// SetWeights changes the policy and its weights from the next decision on. The weights
// must be valid.
func (r *Router) SetWeights(w Weights) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weights = w
}

// Weights are those in force.
func (r *Router) Weights() Weights {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.weights
}

// Add makes a worker known. It is no candidate before Attach. A worker of the same id is replaced
// only in its description: its bookings and prefixes stay.
func (r *Router) Add(w Worker) error {
	if w.BlockTokens < 1 {
		return fmt.Errorf("router: worker %s has blocks of %d tokens, want at least 1", w.ID, w.BlockTokens)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byID[w.ID]
	if known == nil {
		known = &worker{at: len(r.workers), slot: r.held.Add()}
		known.ledgers = []ledger{{processor: r.opt.Self}}
		r.workers, r.seats = append(r.workers, known), append(r.seats, seat{})
		r.byID[w.ID] = known
	}
	known.Worker = w
	known.assumed.bind(r.held, known.slot)
	r.enter(known)
	r.assume(&known.assumed, &known.Worker, !w.Events)
	return nil
}

// Remove forgets a worker whose incarnation has ended, with its bookings and prefixes.
func (r *Router) Remove(id WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byID[id]
	if w == nil {
		return
	}
	r.forget(w)
	r.assume(&w.assumed, &w.Worker, false)
	r.held.Drop(w.slot)
	last := len(r.workers) - 1
	r.workers[w.at], r.seats[w.at] = r.workers[last], r.seats[last]
	r.workers[w.at].at = w.at
	r.workers[last] = nil
	r.workers, r.seats = r.workers[:last], r.seats[:last]
	delete(r.byID, id)
	r.quit(w)
}

// Attach makes a worker a candidate: a stream to it is open. Bookings are numbered from 1 again.
func (r *Router) Attach(id WorkerID) { r.attach(id, true) }

// Detach makes a worker no candidate: its stream broke, and with it all bookings of this
// processor. The prefixes stay, since the worker may live.
func (r *Router) Detach(id WorkerID) { r.attach(id, false) }

func (r *Router) attach(id WorkerID, attached bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.byID[id]; w != nil {
		w.attached = attached
		r.restart(w)
	}
}

// SetDraining says whether a worker takes no new requests; what runs there goes on.
func (r *Router) SetDraining(id WorkerID, draining bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.byID[id]; w != nil {
		w.draining = draining
		r.settle(w)
	}
}

// Counts reads the counters.
func (r *Router) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Index tells of the index of what decode workers hold.
func (r *Router) Index() prefix.Stats { return r.held.Stats() }

// share divides the budget of assumed prefixes among the workers that publish none.
func (r *Router) share() {
	entries := r.cfg.MemoryBytes / entryBytes / max(1, len(r.assuming))
	for a, w := range r.assuming {
		a.size(*w, entries)
	}
}

// assume has a worker's prefixes assumed, or no more.
func (r *Router) assume(a *assumed, w *Worker, assume bool) {
	if _, before := r.assuming[a]; !assume && !before {
		return
	}
	if assume {
		r.assuming[a] = w
	} else {
		delete(r.assuming, a)
		a.size(*w, 0)
	}
	r.share()
}
