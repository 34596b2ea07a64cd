package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/dials"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/grants"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/inbox"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/ledger"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/lifecycle"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/request"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

type agent struct {
	*request.Maker
	config   Config
	address  string
	listener net.Listener
	life     *lifecycle.Life
	regions  region.Table
	grants   grants.Table
	inbox    *inbox.Inbox
	ledger   ledger.Ledger
	tasks    sync.WaitGroup // grows under mu while !ended
	dials    dials.Dials

	mu        sync.Mutex // guards all below
	ended     bool       // no task and no link may begin
	opened    uint64     // links so far
	dialed    uint64     // attempts so far
	callers   crowd[*caller]
	links     map[*link]struct{}
	strangers crowd[*link]          // some of in
	out       map[nixl.PeerID]*link // to the peers that we added
	in        map[nixl.PeerID]*link // from those that added us
	nonces    map[nonce]*link       // of in
	fenced    map[nixl.PeerID]bool  // a few bytes for each fence ever
	outcast   map[nixl.PeerID]bool  // the peers that have fenced us off
}

var _ nixl.Agent = (*agent)(nil)

// New makes an agent that listens. Peers can connect once Run runs.
func New(c Config) (nixl.Agent, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	a := &agent{
		config: c, inbox: inbox.New(c.Notes),
		callers:   crowd[*caller]{total: maxCallers, each: maxCallersFrom},
		strangers: crowd[*link]{total: maxStrangers, each: maxStrangersFrom},
		links:     make(map[*link]struct{}),
		out:       make(map[nixl.PeerID]*link), in: make(map[nixl.PeerID]*link), nonces: make(map[nonce]*link),
		fenced: make(map[nixl.PeerID]bool), outcast: make(map[nixl.PeerID]bool),
	}
	a.Maker = &request.Maker{Self: a.ID(), Regions: &a.regions, Find: a.find}
	a.life = lifecycle.New(a.cleanUp)
	if a.listener, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	if a.address, err = c.advertised(a.listener.Addr()); err != nil {
		return nil, errors.Join(err, a.listener.Close())
	}
	return a, nil
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
		Transport: transport, Peer: a.ID(), KVFormat: a.config.KVFormat, Address: a.address,
		Regions: region.Infos(a.regions.Seal()),
	}
}

// find is a peer that was added.
func (a *agent) find(peer nixl.PeerID) (request.Peer, error) {
	if err := a.life.Err(); err != nil {
		return request.Peer{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch l := a.out[peer]; {
	case l != nil:
		return request.Peer{ID: peer, Gate: &l.gate, Regions: l.regions, Carrier: l}, nil
	case a.outcast[peer]:
		return request.Peer{}, nixl.ErrFenced
	}
	return request.Peer{}, nixl.ErrUnknownPeer
}

func (a *agent) Allow(peer nixl.PeerID, g nixl.Grant) error {
	if err := a.life.Err(); err != nil {
		return err
	}
	if err := a.grants.Allow(peer, g, region.Infos(a.regions.Seal())); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.know(peer)
	return nil
}

// know makes a peer that has added us more than a stranger, for as long as its link lasts. It is
// called within mu.
func (a *agent) know(peer nixl.PeerID) {
	if l := a.in[peer]; l != nil {
		a.strangers.remove(l)
	}
}

// Revoke has its proof as soon as the system call that moves bytes has returned: between
// them the grant is asked again.
func (a *agent) Revoke(ctx context.Context, peer nixl.PeerID, number uint64) error {
	return a.grants.Revoke(ctx, peer, number)
}

// Fence shuts the gate of the peer's link, whose connections then end, and has its proof
// as soon as the system calls in progress have returned. It holds even when ctx ends first.
func (a *agent) Fence(ctx context.Context, peer nixl.PeerID) error {
	a.mu.Lock()
	a.fenced[peer] = true
	l := a.in[peer]
	a.mu.Unlock()
	a.grants.Forget(peer)
	if l == nil {
		return nil
	}
	l.stopWith(fmt.Errorf("%w: we fenced it off", nixl.ErrGone), codeFenced)
	if err := gate.Wait(ctx, l.gate.Shut(nil)); err != nil { // it is shut
		return fmt.Errorf("fence %s: %w: bytes are being moved (%w)", peer, nixl.ErrStillAlive, err)
	}
	return nil
}

func (a *agent) Notify(ctx context.Context, peer nixl.PeerID, payload []byte) error {
	if err := inbox.Fits(peer, payload); err != nil {
		return err
	}
	if err := a.life.Err(); err != nil {
		return err
	}
	l := a.noteLink(peer)
	if l == nil {
		return fmt.Errorf("notify %s: %w", peer, nixl.ErrUnknownPeer)
	}
	if err := l.notify(ctx, payload); err != nil {
		return fmt.Errorf("notify %s: %w", peer, err)
	}
	a.ledger.Add(peer, nixl.Counters{NotesSent: 1})
	return nil
}

// noteLink is the older of the peer's links that are not about to end, so that notes stay in
// order when a second one comes up.
func (a *agent) noteLink(peer nixl.PeerID) *link {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, o := a.in[peer], a.out[peer]
	if l == nil || o != nil && (l.gate.Err() != nil || o.gate.Err() == nil && o.order < l.order) {
		return o
	}
	return l
}

func (a *agent) Receive(ctx context.Context) (nixl.Event, error) {
	e, err := a.inbox.Receive(ctx)
	if err == nil && !e.Gone {
		a.ledger.Add(e.Peer, nixl.Counters{NotesReceived: 1})
	}
	return e, err
}

// RemovePeer waits until the link is gone.
func (a *agent) RemovePeer(peer nixl.PeerID) error {
	a.mu.Lock()
	l := a.out[peer]
	a.mu.Unlock()
	if l == nil {
		return nil
	}
	l.remove(fmt.Errorf("%w: we removed it", nixl.ErrGone))
	<-l.ended
	return nil
}

func (a *agent) Run(ctx context.Context) error { return a.life.Run(ctx, a.run) }

func (a *agent) run(ctx context.Context) error {
	if !a.spawn(a.accept) {
		return nixl.ErrClosed
	}
	<-ctx.Done()
	err := a.listener.Close()
	a.disconnect()
	a.tasks.Wait()
	return err
}

// spawn starts a goroutine for which Run waits, unless the agent has ended.
func (a *agent) spawn(task func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.tasks.Go(task)
	}
	return !a.ended
}

// disconnect ends all that may still wait.
func (a *agent) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for l := range a.links {
		l.remove(fmt.Errorf("%w: %w", nixl.ErrGone, nixl.ErrClosed))
	}
	for _, c := range a.callers.members {
		c.it.drop()
	}
}

// forget takes a link that has ended out of the agent.
func (a *agent) forget(l *link, cause error) {
	l.mu.Lock()
	removed := l.removed
	l.mu.Unlock()
	a.mu.Lock()
	delete(a.links, l)
	if l.added {
		delete(a.out, l.peer)
		if errors.Is(cause, nixl.ErrFenced) {
			a.outcast[l.peer] = true
		}
	} else {
		delete(a.in, l.peer)
		delete(a.nonces, l.nonce)
		a.strangers.remove(l)
	}
	last := !removed && a.in[l.peer] == nil && a.out[l.peer] == nil
	a.mu.Unlock()
	if corrupt(cause) {
		a.ledger.Add(l.peer, nixl.Counters{NotesRefused: 1})
	}
	a.config.Logger.Info("nixl connection ended", "transport", transport, "peer", l.peer.String(), "error", cause)
	if last {
		a.inbox.PutGone(l.peer, cause)
	}
}

func (a *agent) Close() error { return a.life.Close() }

// cleanUp runs when no task is left, or when Run never ran.
func (a *agent) cleanUp() error {
	a.inbox.Close()
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	if err := a.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
