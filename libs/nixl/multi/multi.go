// Package multi makes one agent of several transports over the same memory, so that a
// worker reaches each peer by the best way that leads there: the memory of a process of
// its own host by shm, another host by tcp.
//
// It moves nothing itself. Its goroutines, and those of its transports, belong to its Run.
package multi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/inbox"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/lifecycle"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

// Transport is an agent with the name of its transport, as its metadata have it.
type Transport struct {
	Name  string
	Agent nixl.Agent
}

// notes bounds the events that wait for Receive, beside those within the transports.
const notes = 4

type agent struct {
	transports []Transport // in the order of preference
	life       *lifecycle.Life
	inbox      *inbox.Inbox

	mu    sync.Mutex // guards peers
	peers map[nixl.PeerID]nixl.Agent
}

var _ nixl.Agent = (*agent)(nil)

// New makes an agent of transports, best first. It owns them from now on; all must have
// the same ID.
func New(transports ...Transport) (nixl.Agent, error) {
	if len(transports) == 0 {
		return nil, errors.New("nixl: no transport, want at least one")
	}
	seen := make(map[string]bool)
	for _, t := range transports {
		if t.Agent.ID() != transports[0].Agent.ID() {
			return nil, fmt.Errorf("nixl: transport %s is of agent %s, %s of %s",
				t.Name, t.Agent.ID(), transports[0].Name, transports[0].Agent.ID())
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("nixl: transport %s is there twice", t.Name)
		}
		seen[t.Name] = true
	}
	a := &agent{transports: transports, inbox: inbox.New(notes), peers: make(map[nixl.PeerID]nixl.Agent)}
	a.life = lifecycle.New(a.cleanUp)
	return a, nil
}

func (a *agent) ID() nixl.PeerID { return a.transports[0].Agent.ID() }

// each calls f for every transport and joins the errors.
func (a *agent) each(f func(nixl.Agent) error) error {
	var errs []error
	for _, t := range a.transports {
		if err := f(t.Agent); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Register makes the memory reachable by every transport, or by none.
func (a *agent) Register(m *memory.Memory, layout block.Layout, blocks int) (nixl.Region, error) {
	var regions []nixl.Region
	err := a.each(func(t nixl.Agent) error {
		r, err := t.Register(m, layout, blocks)
		if err == nil {
			regions = append(regions, r)
		}
		return err
	})
	r := &region{Region: nil, all: regions}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.Region = regions[0]
	return r, nil
}

// region is one region of every transport.
type region struct {
	nixl.Region
	all []nixl.Region
}

func (r *region) Close() error {
	var errs []error
	for _, one := range r.all {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// Metadata is a JSON array of the transports' own, best first.
func (a *agent) Metadata() ([]byte, error) {
	var all []json.RawMessage
	err := a.each(func(t nixl.Agent) error {
		m, err := t.Metadata()
		all = append(all, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

func (a *agent) Allow(peer nixl.PeerID, g nixl.Grant) error {
	return a.each(func(t nixl.Agent) error { return t.Allow(peer, g) })
}

func (a *agent) Revoke(ctx context.Context, peer nixl.PeerID, number uint64) error {
	return a.each(func(t nixl.Agent) error { return t.Revoke(ctx, peer, number) })
}

func (a *agent) Fence(ctx context.Context, peer nixl.PeerID) error {
	return a.each(func(t nixl.Agent) error { return t.Fence(ctx, peer) })
}

var _ nixl.Retirer = (*agent)(nil)

// Retire has the memory moved by the transport that can, once; the others must have the
// proof of a fence.
func (a *agent) Retire(ctx context.Context, peer nixl.PeerID, region nixl.RegionID, blocks []block.ID, still nixl.Still) error {
	return a.each(func(t nixl.Agent) error {
		if r, can := t.(nixl.Retirer); can {
			return r.Retire(ctx, peer, region, blocks, still)
		}
		return t.Fence(ctx, peer)
	})
}

// Notify goes by the transport by which the peer was added, or else by the first that
// knows it.
func (a *agent) Notify(ctx context.Context, peer nixl.PeerID, payload []byte) error {
	if t, err := a.way(peer); err == nil {
		return t.Notify(ctx, peer, payload)
	}
	var err error
	for _, t := range a.transports {
		if err = t.Agent.Notify(ctx, peer, payload); !errors.Is(err, nixl.ErrUnknownPeer) {
			return err
		}
	}
	return err
}

func (a *agent) Receive(ctx context.Context) (nixl.Event, error) { return a.inbox.Receive(ctx) }

func (a *agent) Stats() nixl.Stats {
	sum := nixl.Stats{Peers: make(map[nixl.PeerID]nixl.Counters)}
	for _, t := range a.transports {
		s := t.Agent.Stats()
		sum.Add(s.Counters)
		for peer, c := range s.Peers {
			of := sum.Peers[peer]
			of.Add(c)
			sum.Peers[peer] = of
		}
	}
	return sum
}

func (a *agent) Run(ctx context.Context) error { return a.life.Run(ctx, a.run) }

// run ends when ctx ends or a transport fails.
func (a *agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(a.transports))
	var running sync.WaitGroup
	for i, t := range a.transports {
		running.Go(func() {
			defer cancel()
			if err := t.Agent.Run(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", t.Name, err)
			}
		})
		running.Go(func() { a.forward(t.Agent) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// forward passes a transport's events on until it is closed.
func (a *agent) forward(t nixl.Agent) {
	for {
		// The transport yields what had come before it was closed; nobody waits then.
		e, err := t.Receive(context.Background())
		if err != nil {
			return
		}
		if e.Gone {
			a.forget(e.Peer, t)
			a.inbox.PutGone(e.Peer, e.Err)
			continue
		}
		_ = a.inbox.PutNote(a.closing(), e) // refused only when this agent is closed
	}
}

// closing ends when the agent is to end.
func (a *agent) closing() context.Context { return closing{context.Background(), a.life} }

type closing struct {
	context.Context
	life *lifecycle.Life
}

func (c closing) Done() <-chan struct{} { return c.life.Closing() }
func (c closing) Err() error            { return c.life.Err() }

func (a *agent) Close() error { return a.life.Close() }

func (a *agent) cleanUp() error {
	err := a.each(nixl.Agent.Close)
	a.inbox.Close()
	return err
}
