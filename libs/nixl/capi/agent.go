//go:build cgo && linux

package capi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi/internal/native"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/dials"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/inbox"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/ledger"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/lifecycle"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

// wakeInterval is how often NIXL's thread looks for what UCX did not wake it for.
const wakeInterval = 2 * time.Millisecond

type agent struct {
	config     Config
	connection bool // an endpoint is a connection, whose end proves something
	life       *lifecycle.Life
	regions    region.Table
	inbox      *inbox.Inbox
	ledger     ledger.Ledger
	dials      dials.Dials
	tasks      sync.WaitGroup // grows under mu while !ended
	slots      chan struct{}  // holds a token for each transfer in flight
	poller     poller
	own        handles // lists of the own regions

	// calls is NIXL's: shared by all that uses a peer, a request or a list, exclusive for what
	// takes them away. It is taken after a transfer's mutex and before mu.
	calls     sync.RWMutex
	library   *native.Library
	native    *native.Agent
	destroyed bool
	epochs    uint64 // loads of peers so far

	mu       sync.Mutex // guards all below
	ended    bool       // no task and no link may begin
	links    uint64     // so far
	peers    map[nixl.PeerID]*peer
	fenced   map[nixl.PeerID]bool // a few bytes for each fence ever
	metadata []byte               // made once
}

var _ nixl.Agent = (*agent)(nil)

// New loads the library, if need be, and makes an agent that peers reach once Run runs.
// Without the library the error Is ErrUnavailable.
func New(c Config) (nixl.Agent, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	library, err := load()
	if err != nil {
		return nil, err
	}
	alarm, err := newAlarm()
	if err != nil {
		library.Close()
		return nil, err
	}
	n, err := library.NewAgent(nixlName(c.ID()), wakeInterval)
	if err != nil {
		library.Close()
		alarm.close()
		return nil, fmt.Errorf("%w: %s: create an agent with the UCX backend: %w", ErrUnavailable, library.Path(), err)
	}
	a := &agent{
		config: c, connection: overConnections(), library: library, native: n,
		inbox: inbox.New(c.Notes), slots: make(chan struct{}, c.Transfers),
		peers: make(map[nixl.PeerID]*peer), fenced: make(map[nixl.PeerID]bool),
	}
	a.poller.alarm = alarm
	a.life = lifecycle.New(a.cleanUp)
	return a, nil
}

func (a *agent) ID() nixl.PeerID { return a.config.ID() }

func (a *agent) Stats() nixl.Stats { return a.ledger.Stats() }

func (a *agent) Register(m *memory.Memory, layout block.Layout, blocks int) (nixl.Region, error) {
	if err := a.life.Err(); err != nil {
		return nil, err
	}
	at := native.Region{Base: m.Address(), Device: m.Device(), VRAM: m.Kind() == memory.VRAM}
	info := nixl.RegionInfo{Layout: layout, Blocks: blocks}
	possible := info.Validate() == nil && m.Size() >= info.Bytes() // else Add says why not
	a.calls.Lock()
	defer a.calls.Unlock()
	if a.destroyed {
		return nil, nixl.ErrClosed
	}
	m.Pin() // a card that the library uses holds the pages
	if possible {
		if err := a.native.Register(at, info.Bytes()); err != nil {
			return nil, fmt.Errorf("register %d bytes of %s: %w: %w", info.Bytes(), m.Kind(), nixl.ErrUnavailable, err)
		}
	}
	r, err := a.regions.Add(m, layout, blocks)
	if err != nil && possible {
		err = errors.Join(err, a.native.Deregister(at, info.Bytes()))
	}
	if err != nil {
		return nil, err
	}
	return &registered{Region: r, agent: a}, nil
}

func placeOf(r *region.Region) native.Region {
	m := r.Memory()
	return native.Region{Base: m.Address(), Device: m.Device(), VRAM: m.Kind() == memory.VRAM}
}

// registered is an own region, with its registration at NIXL.
type registered struct {
	*region.Region
	agent *agent
	once  sync.Once
	err   error
}

// Close waits for the transfers in flight.
func (r *registered) Close() error {
	err := r.Region.Close()
	r.once.Do(func() { r.err = r.agent.deregister(r.Region) })
	return errors.Join(err, r.err)
}

func (a *agent) deregister(r *region.Region) error {
	a.calls.Lock()
	defer a.calls.Unlock()
	if a.destroyed {
		return nil
	}
	if err := a.native.Deregister(placeOf(r), r.Info().Bytes()); err != nil {
		return fmt.Errorf("deregister region %d: %w", r.ID(), err)
	}
	return nil
}

func (a *agent) Metadata() ([]byte, error) {
	a.mu.Lock()
	made := a.metadata
	a.mu.Unlock()
	if made != nil {
		return slices.Clone(made), nil
	}
	m := a.described()
	var ad address
	for _, r := range a.regions.Seal() {
		p := placeOf(r)
		ad.regions = append(ad.regions, place{p.VRAM, uint32(p.Device), uint64(p.Base)})
	}
	a.calls.RLock()
	err := error(nixl.ErrClosed)
	if !a.destroyed {
		ad.blob, err = a.native.Metadata()
	}
	a.calls.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	m.Address = ad.encode()
	data, err := m.Encode()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.metadata = data
	return slices.Clone(data), nil
}

// described is the metadata without the address.
func (a *agent) described() nixl.Metadata {
	return nixl.Metadata{
		Transport: transport, Peer: a.ID(), KVFormat: a.config.KVFormat, Regions: region.Infos(a.regions.Seal()),
	}
}

// Allow has nothing to do: whoever holds our keys can write anywhere in the regions.
func (a *agent) Allow(nixl.PeerID, nixl.Grant) error { return a.life.Err() }

func (a *agent) Notify(ctx context.Context, id nixl.PeerID, payload []byte) error {
	if err := inbox.Fits(id, payload); err != nil {
		return err
	}
	if err := a.life.Err(); err != nil {
		return err
	}
	l := a.noteLink(id)
	if l == nil {
		return fmt.Errorf("notify %s: %w", id, nixl.ErrUnknownPeer)
	}
	err := l.reserve(ctx)
	if err == nil {
		err = a.sendNumbered(l, note, payload)
	}
	if err != nil {
		return fmt.Errorf("notify %s: %w", id, err)
	}
	a.ledger.Add(id, nixl.Counters{NotesSent: 1})
	return nil
}

// noteLink is the older of the peer's links, so that notes stay in order when a second
// one comes up.
func (a *agent) noteLink(id nixl.PeerID) (l *link) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.peers[id]
	if p == nil {
		return nil
	}
	if p.in != nil && p.in.ready {
		l = p.in
	}
	if p.out != nil && p.out.ready && (l == nil || p.out.order < l.order) {
		l = p.out
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

// find is the link of a peer that was added.
func (a *agent) find(id nixl.PeerID) (*link, error) {
	if err := a.life.Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.peers[id]; p != nil && p.out != nil && p.out.ready {
		return p.out, nil
	}
	return nil, nixl.ErrUnknownPeer
}
