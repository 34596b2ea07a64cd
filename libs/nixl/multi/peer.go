package multi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// maxTransports bounds the metadata of a peer.
const maxTransports = 8

// AddPeer connects by the first of this agent's transports that the peer has too and
// that leads there. A peer that cannot be one by any way is refused at once.
func (a *agent) AddPeer(ctx context.Context, metadata []byte) (nixl.PeerID, error) {
	offers, err := parse(metadata)
	if err != nil {
		return nixl.PeerID{}, err
	}
	tried := fmt.Errorf("add peer: %w: none of its transports is one of ours", nixl.ErrUnreachable)
	for i, t := range a.transports {
		offer := offers[t.Name]
		if offer == nil {
			continue
		}
		id, err := t.Agent.AddPeer(ctx, offer)
		if err == nil {
			a.remember(id, i)
			return id, nil
		}
		tried = fmt.Errorf("%s: %w", t.Name, err)
		// A peer that is unknown by one way may be of another process; one that has ended is
		// unknown by every way.
		if !errors.Is(err, nixl.ErrUnreachable) && !errors.Is(err, nixl.ErrUnknownPeer) || ctx.Err() != nil {
			break
		}
	}
	return nixl.PeerID{}, tried
}

// parse reads one transport's metadata, or an array of several, by transport.
func parse(metadata []byte) (map[string][]byte, error) {
	all := []json.RawMessage{metadata}
	if bytes.HasPrefix(bytes.TrimSpace(metadata), []byte("[")) {
		all = nil
		if err := json.Unmarshal(metadata, &all); err != nil {
			return nil, fmt.Errorf("nixl metadata: %w", err)
		}
	}
	if len(all) == 0 || len(all) > maxTransports {
		return nil, fmt.Errorf("nixl metadata: %d transports, want 1 to %d", len(all), maxTransports)
	}
	offers := make(map[string][]byte)
	var peer nixl.PeerID
	for i, one := range all {
		m, err := nixl.ParseMetadata(one)
		if err != nil {
			return nil, err
		}
		if i > 0 && m.Peer != peer {
			return nil, fmt.Errorf("nixl metadata: of %s and of %s, want one agent", peer, m.Peer)
		}
		peer, offers[m.Transport] = m.Peer, one
	}
	return offers, nil
}

// DescribeWay reads what an agent has published for one transport.
func DescribeWay(metadata []byte, transport string) (nixl.Metadata, error) {
	offers, err := parse(metadata)
	if err != nil {
		return nixl.Metadata{}, err
	}
	if offers[transport] == nil {
		return nixl.Metadata{}, fmt.Errorf("nixl metadata: not by %s: %w", transport, nixl.ErrUnreachable)
	}
	return nixl.ParseMetadata(offers[transport])
}

// Describe reads what an agent has published, by the first of its transports: they all have
// the same regions.
func Describe(metadata []byte) (nixl.Metadata, error) {
	offers, err := parse(metadata)
	if err != nil {
		return nixl.Metadata{}, err
	}
	for _, one := range offers {
		return nixl.ParseMetadata(one)
	}
	return nixl.Metadata{}, errors.New("nixl metadata: no transport")
}

func (a *agent) remember(peer nixl.PeerID, transport int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peers[peer] = a.transports[transport].Agent
}

func (a *agent) forget(peer nixl.PeerID, t nixl.Agent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.peers[peer] == t {
		delete(a.peers, peer)
	}
}

// way is the transport by which a peer was added.
func (a *agent) way(peer nixl.PeerID) (nixl.Agent, error) {
	if err := a.life.Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.peers[peer]; t != nil {
		return t, nil
	}
	return nil, nixl.ErrUnknownPeer
}

var _ nixl.Chooser = (*agent)(nil)

// Way implements nixl.Chooser.
func (a *agent) Way(peer nixl.PeerID) string {
	by, err := a.way(peer)
	if err != nil {
		return ""
	}
	for _, t := range a.transports {
		if t.Agent == by {
			return t.Name
		}
	}
	return ""
}

func (a *agent) RemovePeer(peer nixl.PeerID) error {
	err := a.each(func(t nixl.Agent) error { return t.RemovePeer(peer) })
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.peers, peer)
	return err
}

// list is a list of a transport, or of own runs, which every transport prepares once it
// is needed.
type list struct {
	by   nixl.Agent // nil for own runs
	list nixl.List

	region nixl.RegionID
	runs   []block.Span
	mu     sync.Mutex
	own    map[nixl.Agent]nixl.List
}

func (l *list) Len() int {
	if l.by == nil {
		return len(l.runs)
	}
	return l.list.Len()
}

func (l *list) Release() {
	if l.by != nil {
		l.list.Release()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.own {
		one.Release()
	}
}

// at is the list of own runs as a transport prepared it.
func (l *list) at(t nixl.Agent) (nixl.List, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.own[t]; one != nil {
		return one, nil
	}
	one, err := t.Prepare(t.ID(), l.region, l.runs)
	if err == nil {
		l.own[t] = one
	}
	return one, err
}

func (a *agent) Prepare(peer nixl.PeerID, region nixl.RegionID, runs []block.Span) (nixl.List, error) {
	if peer == a.ID() {
		l := &list{region: region, runs: slices.Clone(runs), own: make(map[nixl.Agent]nixl.List)}
		_, err := l.at(a.transports[0].Agent) // which checks the runs
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	t, err := a.way(peer)
	if err != nil {
		return nil, fmt.Errorf("prepare runs of %s: %w", peer, err)
	}
	one, err := t.Prepare(peer, region, runs)
	if err != nil {
		return nil, err
	}
	return &list{by: t, list: one}, nil
}

func (a *agent) Make(p nixl.Prepared) (nixl.Transfer, error) {
	local, mine := p.Local.(*list)
	remote, theirs := p.Remote.(*list)
	if !mine || !theirs || local.by != nil || remote.by == nil {
		return nil, fmt.Errorf("make: want a list of this agent's own runs and one of a peer's: %w", nixl.ErrDescriptor)
	}
	var err error
	if p.Local, err = local.at(remote.by); err != nil {
		return nil, err
	}
	p.Remote = remote.list
	return remote.by.Make(p)
}

func (a *agent) Create(r nixl.Request) (nixl.Transfer, error) {
	t, err := a.way(r.Peer)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Op, r.Peer, err)
	}
	return t.Create(r)
}
