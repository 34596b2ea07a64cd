package processor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	"github.com/switchyard-llm/switchyard/services/processor/link"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// Watcher is the members of a role as discovery knows them.
type Watcher interface {
	// Watch yields them once they are known, and again after each change until ctx ends.
	Watch(ctx context.Context) iter.Seq[discovery.Snapshot]
}

// Members is the decode workers as discovery knows them.
type Members interface {
	Watcher
	// Lost tells that a connection to that life of a member failed.
	Lost(id, incarnation string)
}

var _ Members = (*discovery.Members)(nil)

// workers keeps a link to each decode worker of the model, and the router informed.
type workers struct {
	model       string
	name        string // of this processor
	incarnation string
	router      *router.Router
	events      *events // nil: nothing carries any
	members     Members
	dial        func(address string) (*grpc.ClientConn, error)
	log         *slog.Logger

	running sync.WaitGroup // of the links

	mu      sync.Mutex // guards the rest; never held while the router or a link is called
	peers   map[router.WorkerID]*peer
	changed chan struct{} // closed and replaced when a worker may have become a candidate
}

// run follows the members and keeps the links until ctx ends.
func (w *workers) run(ctx context.Context) error {
	for snapshot := range w.members.Watch(ctx) {
		if err := w.apply(ctx, snapshot); err != nil {
			w.log.Error("a decode worker cannot be used", "error", err)
		}
	}
	w.running.Wait()
	return nil
}

// apply starts links to new workers and drains those to workers that left.
func (w *workers) apply(ctx context.Context, snapshot discovery.Snapshot) error {
	var errs []error
	present := map[router.WorkerID]bool{}
	for _, m := range snapshot.Members {
		if m.Instance.GetModel().GetName() != w.model {
			continue
		}
		id := router.WorkerID{Name: m.Instance.GetId(), Incarnation: m.Instance.GetIncarnation()}
		present[id] = true
		if err := w.note(ctx, id, m.Instance); err != nil {
			errs = append(errs, err)
		}
	}
	for _, p := range w.absent(present) {
		p.drain()
	}
	return errors.Join(errs...)
}

// note takes what a member says of itself.
func (w *workers) note(ctx context.Context, id router.WorkerID, in *instancev1.Instance) error {
	w.mu.Lock()
	p := w.peers[id]
	if p != nil {
		p.instance, p.present = in, true
	}
	w.mu.Unlock()
	if p == nil {
		var err error
		if p, err = w.add(id, in); err != nil {
			return err
		}
		w.running.Go(func() { p.run(ctx) })
	}
	w.router.SetDraining(id, in.GetDraining())
	w.wake()
	return nil
}

func (w *workers) add(id router.WorkerID, in *instancev1.Instance) (*peer, error) {
	p := &peer{workers: w, id: id, instance: in, present: true, counted: withWorker(id.Name)}
	if err := p.candidate(in); err != nil {
		return nil, err
	}
	var err error
	if p.conn, err = w.dial(in.GetAddress()); err != nil {
		w.router.Remove(id)
		return nil, fmt.Errorf("reach worker %s: %w", id, err)
	}
	p.link = p.newLink()
	w.mu.Lock()
	w.peers[id] = p
	w.mu.Unlock()
	return p, nil
}

// absent lists the peers that discovery does not know any more; ended ones are forgotten.
func (w *workers) absent(present map[router.WorkerID]bool) []*peer {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*peer
	for id, p := range w.peers {
		if present[id] {
			continue
		}
		p.present = false
		if p.ended {
			delete(w.peers, id)
		} else {
			list = append(list, p)
		}
	}
	return list
}

func (w *workers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

// submit sends a sequence to the worker that the router picked, and answers the worker
// and its address with it; nil when it cannot be reached.
func (w *workers) submit(id router.WorkerID, sub link.Submission) (*link.Sequence, *peer, string) {
	w.mu.Lock()
	var l *link.Link
	var address string
	p := w.peers[id]
	if p != nil {
		l, address = p.link, p.instance.GetAddress()
	}
	w.mu.Unlock()
	if l == nil {
		return nil, nil, ""
	}
	return l.Submit(sub), p, address
}

// peer is a worker's, nil once it is forgotten.
func (w *workers) peer(id router.WorkerID) *peer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peers[id]
}

// knows says whether a worker of that name is there, reachable or not.
func (w *workers) knows(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, p := range w.peers {
		if id.Name == name && p.present && !p.ended {
			return true
		}
	}
	return false
}

// others says whether a worker that takes work is known, reachable or not, beside these.
func (w *workers) others(but []router.WorkerID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, p := range w.peers {
		if p.takesWork() && !slices.Contains(but, id) {
			return true
		}
	}
	return false
}

// state is what the workers are good for now.
type state struct {
	known         bool // some worker is there and takes work, reachable or not
	attached      bool // some is reachable, too
	contextTokens int  // what every one of them can hold; 0: none is known
	since         time.Time
	changed       <-chan struct{} // closed when it may be otherwise
}

func (w *workers) state() state {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := state{changed: w.changed}
	for _, p := range w.peers {
		if !p.takesWork() {
			continue
		}
		card := p.instance.GetModel()
		holds := int(card.GetContextTokens())
		if pool := int(card.GetPoolBlocks() * card.GetBlockTokens()); pool > 0 {
			holds = min(holds, pool)
		}
		if s.contextTokens == 0 || holds < s.contextTokens {
			s.contextTokens = holds
		}
		if started := p.instance.GetStarted().AsTime(); !s.known || started.Before(s.since) {
			s.since = started
		}
		s.known, s.attached = true, s.attached || p.attached
	}
	return s
}
