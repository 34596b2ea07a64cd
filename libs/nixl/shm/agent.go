//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/dials"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/inbox"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/ledger"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/lifecycle"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/mapped"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/mover"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/request"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

type agent struct {
	*request.Maker
	config   Config
	listener *net.UnixListener
	file     fileID // of the socket
	life     *lifecycle.Life
	regions  region.Table
	mover    *mover.Mover
	inbox    *inbox.Inbox
	ledger   ledger.Ledger
	tasks    sync.WaitGroup // grows under mu while !ended
	dials    dials.Dials

	mu      sync.Mutex                // guards all below
	ended   bool                      // no task and no connection may begin
	opened  uint64                    // connections so far
	conns   map[*conn]struct{}        // every open socket
	out     map[nixl.PeerID]*outgoing // peers that we added
	in      map[nixl.PeerID]*conn     // connections of those that added us
	writers map[nixl.PeerID]*writer   // who was given our memory and may still have it
	fenced  map[nixl.PeerID]bool      // a few bytes for each fence ever
}

var _ nixl.Agent = (*agent)(nil)

// New makes an agent and its socket file. Peers can connect once Run runs.
func New(c Config) (nixl.Agent, error) {
	base, err := c.Config.Complete()
	if err != nil {
		return nil, err
	}
	c.Config = base
	a := &agent{
		config: c, inbox: inbox.New(c.Notes),
		conns: make(map[*conn]struct{}), out: make(map[nixl.PeerID]*outgoing),
		in:      make(map[nixl.PeerID]*conn),
		writers: make(map[nixl.PeerID]*writer), fenced: make(map[nixl.PeerID]bool),
	}
	a.mover = mover.New(base, &a.ledger)
	a.Maker = mapped.New(a.ID(), &a.regions, a.mover, a.find)
	a.life = lifecycle.New(a.cleanUp)
	if a.listener, err = listen(c.Socket); err != nil {
		return nil, err
	}
	if a.file, err = identifyFile(c.Socket); err != nil {
		a.listener.Close()
		return nil, err
	}
	return a, nil
}

func (a *agent) ID() nixl.PeerID { return a.config.ID() }

func (a *agent) Stats() nixl.Stats { return a.ledger.Stats() }

func (a *agent) Register(m *memory.Memory, layout block.Layout, blocks int) (nixl.Region, error) {
	if err := a.life.Err(); err != nil {
		return nil, err
	}
	if len(m.Files()) == 0 {
		return nil, fmt.Errorf("register %s without a file that peers could map: %w", m.Kind(), nixl.ErrUnavailable)
	}
	r, err := a.regions.Add(m, layout, blocks)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// files are the descriptors of the own regions, by id.
func (a *agent) files() (fds []int) {
	for _, r := range a.regions.Seal() {
		for _, f := range r.Memory().Files() {
			fds = append(fds, f.FD)
		}
	}
	return fds
}

func (a *agent) Metadata() ([]byte, error) { return a.metadata().Encode() }

func (a *agent) metadata() nixl.Metadata {
	return nixl.Metadata{
		Transport: transport, Peer: a.ID(), KVFormat: a.config.KVFormat, Address: a.config.Socket,
		Regions: region.Infos(a.regions.Seal()),
	}
}

// find is a peer that was added.
func (a *agent) find(peer nixl.PeerID) (mapped.Peer, error) {
	if err := a.life.Err(); err != nil {
		return mapped.Peer{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.out[peer]; o != nil {
		return mapped.Peer{ID: peer, Gate: &o.gate, Regions: o.regions}, nil
	}
	return mapped.Peer{}, nixl.ErrUnknownPeer
}

// Allow has nothing to do: whoever maps our memory can write anywhere in it.
func (a *agent) Allow(nixl.PeerID, nixl.Grant) error { return a.life.Err() }

func (a *agent) Notify(ctx context.Context, peer nixl.PeerID, payload []byte) error {
	if err := inbox.Fits(peer, payload); err != nil {
		return err
	}
	if err := a.life.Err(); err != nil {
		return err
	}
	c := a.noteConn(peer)
	if c == nil {
		return fmt.Errorf("notify %s: %w", peer, nixl.ErrUnknownPeer)
	}
	if err := c.enqueue(ctx, outgoingFrame{bytes: wire.Append(nil, wire.Note, payload)}); err != nil {
		return fmt.Errorf("notify %s: %w", peer, err)
	}
	a.ledger.Add(peer, nixl.Counters{NotesSent: 1})
	return nil
}

// noteConn is the older of the peer's connections, so that notes stay in order when a
// second one comes up.
func (a *agent) noteConn(peer nixl.PeerID) *conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.in[peer]
	if o := a.out[peer]; o != nil && (c == nil || o.conn.order < c.order) {
		c = o.conn
	}
	return c
}

func (a *agent) Receive(ctx context.Context) (nixl.Event, error) {
	e, err := a.inbox.Receive(ctx)
	if err == nil && !e.Gone {
		a.ledger.Add(e.Peer, nixl.Counters{NotesReceived: 1})
	}
	return e, err
}

func (a *agent) Run(ctx context.Context) error { return a.life.Run(ctx, a.run) }

func (a *agent) run(ctx context.Context) error {
	if !a.spawn(a.accept) {
		return nixl.ErrClosed
	}
	a.mover.Run(ctx)
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

// disconnect ends all that may still wait: it leaves the peers that we added, in
// parallel, and drops the connections of the others.
func (a *agent) disconnect() {
	a.mu.Lock()
	a.ended = true
	var leaving sync.WaitGroup
	for peer := range a.out {
		leaving.Go(func() { _ = a.RemovePeer(peer) }) // never fails
	}
	a.mu.Unlock()
	leaving.Wait()

	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.conns {
		c.abandon()
	}
	for _, w := range a.writers {
		w.pidfd.Close()
	}
}

func (a *agent) Close() error { return a.life.Close() }

// cleanUp runs when no task is left, or when Run never ran.
func (a *agent) cleanUp() error {
	a.mover.End()
	a.inbox.Close()
	if err := a.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return unlink(a.config.Socket, a.file)
}
