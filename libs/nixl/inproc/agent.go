package inproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/grants"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/inbox"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/ledger"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/lifecycle"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/mapped"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/mover"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/request"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

type agent struct {
	*request.Maker
	config  nixl.Config
	network *Network
	life    *lifecycle.Life
	regions region.Table
	grants  grants.Table
	mover   *mover.Mover
	inbox   *inbox.Inbox
	ledger  ledger.Ledger

	links  links                // guarded by network.mu
	fenced map[nixl.PeerID]bool // guarded by network.mu; a few bytes for each fence ever
}

var _ nixl.Agent = (*agent)(nil)

// NewAgent adds an agent to the network. It can be found at once; it copies while
// its Run runs.
func (n *Network) NewAgent(c nixl.Config) (nixl.Agent, error) {
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	a := &agent{config: c, network: n, inbox: inbox.New(c.Notes), fenced: make(map[nixl.PeerID]bool)}
	a.links = links{out: make(map[nixl.PeerID]*link), in: make(map[nixl.PeerID]*link)}
	a.mover = mover.New(c, &a.ledger)
	a.Maker = mapped.New(a.ID(), &a.regions, a.mover, a.find)
	a.life = lifecycle.New(a.cleanUp)
	return a, n.join(a)
}

func (a *agent) ID() nixl.PeerID { return a.config.ID() }

func (a *agent) Stats() nixl.Stats { return a.ledger.Stats() }

func (a *agent) Register(m *memory.Memory, layout block.Layout, blocks int) (nixl.Region, error) {
	if err := a.life.Err(); err != nil {
		return nil, err
	}
	if m.Bytes() == nil {
		return nil, fmt.Errorf("register %s: %w", m.Kind(), nixl.ErrUnavailable)
	}
	r, err := a.regions.Add(m, layout, blocks)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (a *agent) Metadata() ([]byte, error) { return a.metadata().Encode() }

func (a *agent) metadata() nixl.Metadata {
	return nixl.Metadata{
		Transport: transport, Peer: a.ID(), KVFormat: a.config.KVFormat,
		Regions: region.Infos(a.regions.Seal()),
	}
}

func (a *agent) AddPeer(ctx context.Context, metadata []byte) (nixl.PeerID, error) {
	m, err := nixl.ParseMetadata(metadata)
	if err != nil {
		return nixl.PeerID{}, err
	}
	if err = a.life.Started(ctx); err == nil {
		err = a.metadata().Compatible(m)
	}
	if err == nil {
		err = a.network.connect(a, m.Peer)
	}
	if err != nil {
		return nixl.PeerID{}, fmt.Errorf("add peer %s: %w", m.Peer, err)
	}
	a.config.Logger.DebugContext(ctx, "nixl peer added", "transport", transport, "peer", m.Peer.String())
	return m.Peer, nil
}

func (a *agent) RemovePeer(peer nixl.PeerID) error {
	a.network.mu.Lock()
	l := a.links.out[peer]
	a.network.mu.Unlock()
	if l != nil {
		a.network.cut(l, fmt.Errorf("%w: we removed it", nixl.ErrGone))
	}
	return nil
}

// find is a peer that was added.
func (a *agent) find(peer nixl.PeerID) (mapped.Peer, error) {
	if err := a.life.Err(); err != nil {
		return mapped.Peer{}, err
	}
	a.network.mu.Lock()
	l := a.links.out[peer]
	a.network.mu.Unlock()
	if l == nil {
		return mapped.Peer{}, nixl.ErrUnknownPeer
	}
	return mapped.Peer{ID: peer, Gate: l.gate, Regions: l.to.regions.Seal(), Grants: &l.to.grants}, nil
}

// Allow lets peer touch blocks of ours.
func (a *agent) Allow(peer nixl.PeerID, g nixl.Grant) error {
	if err := a.life.Err(); err != nil {
		return err
	}
	return a.grants.Allow(peer, g, region.Infos(a.regions.Seal()))
}

// Revoke waits for the copies in progress, which ask the grant's gate at each step.
func (a *agent) Revoke(ctx context.Context, peer nixl.PeerID, number uint64) error {
	return a.grants.Revoke(ctx, peer, number)
}

func (a *agent) Notify(ctx context.Context, peer nixl.PeerID, payload []byte) error {
	if err := inbox.Fits(peer, payload); err != nil {
		return err
	}
	if err := a.life.Err(); err != nil {
		return err
	}
	a.network.mu.Lock()
	target := a.links.any(peer)
	a.network.mu.Unlock()
	if target == nil {
		return fmt.Errorf("notify %s: %w", peer, nixl.ErrUnknownPeer)
	}
	err := target.inbox.PutNote(ctx, nixl.Event{Peer: a.ID(), Payload: bytes.Clone(payload)})
	if errors.Is(err, nixl.ErrClosed) {
		err = nixl.ErrGone
	}
	if err != nil {
		return fmt.Errorf("notify %s: %w", peer, err)
	}
	a.ledger.Add(peer, nixl.Counters{NotesSent: 1})
	return nil
}

func (a *agent) Receive(ctx context.Context) (nixl.Event, error) {
	e, err := a.inbox.Receive(ctx)
	if err == nil && !e.Gone {
		a.ledger.Add(e.Peer, nixl.Counters{NotesReceived: 1})
	}
	return e, err
}

// Fence shuts the gate of the peer's copies and waits for those in progress, which
// ask the gate at each step. The gate stays shut even when ctx ends first.
func (a *agent) Fence(ctx context.Context, peer nixl.PeerID) error {
	a.network.mu.Lock()
	a.fenced[peer] = true
	l := a.links.in[peer]
	a.network.mu.Unlock()
	a.grants.Forget(peer)
	if l == nil {
		return nil
	}
	if err := gate.Wait(ctx, l.gate.Shut(nixl.ErrFenced)); err != nil {
		return fmt.Errorf("fence %s: %w: a copy is in progress (%w)", peer, nixl.ErrStillAlive, err)
	}
	return nil
}

func (a *agent) Run(ctx context.Context) error {
	return a.life.Run(ctx, func(ctx context.Context) error {
		a.mover.Run(ctx)
		return nil
	})
}

func (a *agent) Close() error { return a.life.Close() }

func (a *agent) cleanUp() error {
	a.mover.End()
	a.network.leave(a)
	a.inbox.Close()
	return nil
}
