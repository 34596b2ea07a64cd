// Package router picks the decode worker of a request by projected cost, and books it. It
// also remembers which prefill worker computed which prefix, and ranks those as a hint.
//
// It knows each worker's last load report, its own bookings since then, and the prefixes
// it remembers having sent there. It is not a client: it moves no message, has no clock
// and starts no goroutine. One mutex guards a Router; its methods may be called from any
// goroutine.
//
// The cost of a candidate, lowest wins, is
//
//	prefill_weight · uncached blocks of the prompt + active prefill + decode_weight · active decode
//
// in blocks, since the speed of no worker is known here. Select and book is one step:
// two requests at once never see the same idle worker.
package router

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// ErrNoWorker is returned when no worker can take a request.
var ErrNoWorker = errors.New("no worker can take the request")

// WorkerID names one life of a worker.
type WorkerID struct{ Name, Incarnation string }

func (w WorkerID) String() string { return w.Name + "/" + w.Incarnation }

// Worker is what the router needs to know of a candidate.
type Worker struct {
	ID WorkerID
	// Model is the served name.
	Model string
	// BlockTokens is the size of its blocks, in tokens; at least 1.
	BlockTokens int
	// PoolBlocks is the size of its pool; the router remembers no more than that of it.
	// 0: not known.
	PoolBlocks int
}

// Report is a worker's own word on its load.
type Report struct {
	// Booking is the highest booking of this router that the report includes.
	Booking uint64
	// PrefillTokens are tokens of prompts not computed yet.
	PrefillTokens int
	// DecodeTokens are the tokens of running sequences.
	DecodeTokens int
}

// Request is what a worker is picked for.
type Request struct {
	// Model is the served name.
	Model string
	// Salt separates the prefixes of tenants.
	Salt string
	// Tokens are the prompt, and what was generated already after a migration; at least one.
	Tokens []sequence.Token
	// Avoid holds workers that refused this request; they are not picked.
	Avoid []WorkerID
}

// Config says how workers are picked.
type Config struct {
	Policy        Policy  `yaml:"policy" help:"how the decode worker is picked: kv, round-robin, random or least-loaded"`
	PrefillWeight float64 `yaml:"prefill_weight" help:"weight of the prompt's uncached blocks"`
	DecodeWeight  float64 `yaml:"decode_weight" help:"weight of the blocks of running sequences"`
	MemoryBytes   int     `yaml:"memory_bytes" help:"budget of the remembered prefixes, in bytes, shared by the workers"`
}

// DefaultConfig weighs prefill and decode alike.
func DefaultConfig() Config {
	return Config{Policy: KV, PrefillWeight: 1, DecodeWeight: 1, MemoryBytes: 64 << 20}
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	if !c.Policy.valid() {
		return fmt.Errorf("policy is %q, want one of %v", c.Policy, policies)
	}
	if !(c.PrefillWeight >= 0) { // not a number is none
		return fmt.Errorf("prefill_weight is %v, want at least 0", c.PrefillWeight)
	}
	if !(c.DecodeWeight >= 0) {
		return fmt.Errorf("decode_weight is %v, want at least 0", c.DecodeWeight)
	}
	if c.MemoryBytes < entryBytes {
		return fmt.Errorf("memory_bytes is %d, want at least %d", c.MemoryBytes, entryBytes)
	}
	return nil
}

// Router picks workers.
type Router struct {
	cfg Config

	mu      sync.Mutex // guards all below
	random  *rand.Rand
	workers []*worker // in the order of Add
	turn    int       // of round-robin
	chain   []block.Hash

	prefills []*prefill // in the order of AddPrefill
}

// New returns a router without workers; random breaks ties.
func New(cfg Config, random *rand.Rand) (*Router, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	return &Router{cfg: cfg, random: random}, nil
}

// Add makes a worker known. It is no candidate before Attach. A worker of the same id is replaced
// only in its description: its bookings and prefixes stay.
func (r *Router) Add(w Worker) error {
	if w.BlockTokens < 1 {
		return fmt.Errorf("router: worker %s has blocks of %d tokens, want at least 1", w.ID, w.BlockTokens)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.find(w.ID); known != nil {
		known.Worker = w
	} else {
		r.workers = append(r.workers, &worker{Worker: w, bookings: map[uint64]*booking{}})
	}
	r.share()
	return nil
}

// Remove forgets a worker whose incarnation has ended, with its bookings and prefixes.
func (r *Router) Remove(id WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range r.workers {
		if w.ID == id {
			r.workers = append(r.workers[:i], r.workers[i+1:]...)
			break
		}
	}
	r.share()
}

// Attach makes a worker a candidate: a stream to it is open. Bookings are numbered from 1 again.
func (r *Router) Attach(id WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.find(id); w != nil {
		w.attached = true
		w.reset()
	}
}

// Detach makes a worker no candidate: its stream broke, and with it all its bookings. The
// prefixes stay, since the worker may live.
func (r *Router) Detach(id WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.find(id); w != nil {
		w.attached = false
		w.reset()
	}
}

// SetDraining says whether a worker takes no new requests; what runs there goes on.
func (r *Router) SetDraining(id WorkerID, draining bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.find(id); w != nil {
		w.draining = draining
	}
}

// Report takes a worker's report, which replaces what was known of its load. Bookings up
// to the one that it names are part of it.
func (r *Router) Report(id WorkerID, report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.find(id); w != nil {
		w.take(report)
	}
}

// Load is the cost that a worker of this name carries now, in blocks, whoever asks.
type Load struct {
	ID       WorkerID
	Attached bool
	// Prefill and Decode are the blocks of prompts to compute and of running sequences.
	Prefill, Decode float64
	// Remembered is the number of blocks that the router takes to be resident.
	Remembered int
}

// Loads tells what the router knows of each worker.
func (r *Router) Loads() []Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	loads := make([]Load, len(r.workers))
	for i, w := range r.workers {
		loads[i] = Load{ID: w.ID, Attached: w.attached, Prefill: w.prefill(), Decode: w.decode(), Remembered: w.memory.len()}
	}
	return loads
}

func (r *Router) find(id WorkerID) *worker {
	for _, w := range r.workers {
		if w.ID == id {
			return w
		}
	}
	return nil
}

// share divides the memory budget among the workers, prefill workers included.
func (r *Router) share() {
	entries := r.cfg.MemoryBytes / entryBytes / max(1, len(r.workers)+len(r.prefills))
	for _, w := range r.workers {
		w.memory.resize(w.holds(entries))
	}
	for _, p := range r.prefills {
		p.memory.resize(p.holds(entries))
	}
}

// holds is how many of so many blocks the worker's pool can hold.
func (w *Worker) holds(blocks int) int {
	if w.PoolBlocks > 0 {
		return min(blocks, w.PoolBlocks)
	}
	return blocks
}
