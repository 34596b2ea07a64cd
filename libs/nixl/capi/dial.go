//go:build cgo && linux

package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi/internal/native"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

const (
	// protocolVersion changes when old and new agents cannot talk.
	protocolVersion = 1
	// helloTimeout bounds the exchange of hello and welcome.
	helloTimeout = 5 * time.Second
	// probeInterval is how often a silent peer's endpoint is asked whether it has failed.
	probeInterval = 50 * time.Millisecond
	// maxNotes bounds what a peer may say of its inbox.
	maxNotes = 1 << 20
)

// greeting is the payload of a hello. The welcome's is the same without Wants.
type greeting struct {
	wire.Greeting
	// Epoch tells the sender's endpoint from its earlier ones.
	Epoch uint64 `json:"epoch"`
	// Notes is how many notes the sender takes at a time.
	Notes int `json:"notes"`
}

// AddPeer says hello once, however many callers there are.
func (a *agent) AddPeer(ctx context.Context, metadata []byte) (nixl.PeerID, error) {
	m, err := nixl.ParseMetadata(metadata)
	if err != nil {
		return nixl.PeerID{}, err
	}
	if err = a.life.Started(ctx); err == nil {
		err = a.described().Compatible(m)
	}
	if err == nil {
		err = a.dials.Do(ctx, m.Peer, func() (bool, <-chan struct{}, error) { return a.connected(m.Peer) },
			func() error { return a.dial(ctx, m) })
	}
	if err != nil {
		return nixl.PeerID{}, fmt.Errorf("add peer %s: %w", m.Peer, err)
	}
	return m.Peer, nil
}

// connected is for dials.Do. A dying link is waited for: the peer relies on one holder
// of its keys at a time.
func (a *agent) connected(id nixl.PeerID) (bool, <-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false, nil, nixl.ErrClosed
	}
	p := a.peers[id]
	if p == nil || p.out == nil {
		return false, nil, nil
	}
	if p.out.ready && p.out.gate.Err() == nil {
		return true, nil, nil
	}
	if p.out.gate.Err() == nil {
		return false, nil, nil // another caller dials
	}
	return false, p.out.ended, nil
}

func (a *agent) dial(ctx context.Context, m nixl.Metadata) error {
	at, err := parseAddress(m.Address, m.Regions)
	if err != nil {
		return fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		return nixl.ErrClosed
	}
	p := a.peer(m.Peer)
	p.busy++
	defer a.atRest(p)
	var ending *link
	if p.failed {
		ending = p.in
	}
	a.mu.Unlock()
	if ending != nil {
		select {
		case <-ending.ended:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", nixl.ErrUnreachable, ctx.Err())
		}
	}
	if err := a.load(p, string(at.blob), false); err != nil {
		return err
	}
	l, err := a.open(p, m, at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if err := a.greet(ctx, l); err != nil {
		l.stop(err, byUs)
		<-l.ended
		return err
	}
	a.config.Logger.InfoContext(ctx, "nixl peer added", "transport", transport, "peer", p.id.String())
	return nil
}

// atRest ends a dial or an answer to a hello.
func (a *agent) atRest(p *peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.busy--
}

// open makes the link of a peer that we add.
func (a *agent) open(p *peer, m nixl.Metadata, at address) (*link, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, nixl.ErrClosed
	}
	a.links++
	l := newLink(p, a.links, true, a.config.Notes)
	l.order, l.infos = a.links, m.Regions
	for _, r := range at.regions {
		l.places = append(l.places, native.Region{Base: uintptr(r.base), Device: int(r.device), VRAM: r.vram})
	}
	p.out = l
	a.start(l)
	return l, nil
}

// greet says hello and waits for the answer.
func (a *agent) greet(ctx context.Context, l *link) error {
	payload, err := a.greeting(l.peer, l.peer.id)
	if err != nil {
		return err
	}
	if err := a.send(l.peer, l.frame(a.ID(), hello, payload)); err != nil {
		return fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	probe := time.NewTicker(probeInterval)
	defer probe.Stop()
	for {
		select {
		case f := <-l.answer:
			return a.answered(l, f)
		case <-l.quit:
			return fmt.Errorf("%w: %w", nixl.ErrUnreachable, l.cause)
		case <-ctx.Done():
			return fmt.Errorf("%w: no answer: %w", nixl.ErrUnreachable, ctx.Err())
		case <-probe.C:
			_ = a.send(l.peer, l.frame(a.ID(), alive, nil)) // an error stops the link
		}
	}
}

// greeting says who we are, to a peer that is loaded.
func (a *agent) greeting(p *peer, wants nixl.PeerID) ([]byte, error) {
	own, err := a.Metadata()
	if err != nil {
		return nil, err
	}
	a.calls.RLock()
	epoch := p.epoch
	a.calls.RUnlock()
	return json.Marshal(greeting{wire.Greeting{Version: protocolVersion, Wants: wants, Metadata: own}, epoch, a.config.Notes})
}

// answered takes the welcome or the refusal.
func (a *agent) answered(l *link, f frame) error {
	if f.kind == refusal {
		return wire.DecodeRefusal(f.payload)
	}
	var g greeting
	if err := json.Unmarshal(f.payload, &g); err != nil || g.Notes < 1 || g.Notes > maxNotes {
		return fmt.Errorf("%w: %w: welcome for %d notes: %w", nixl.ErrUnreachable, errFrame, g.Notes, err)
	}
	if _, err := g.Check(a.described(), protocolVersion); err != nil {
		return fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	l.narrow(g.Notes)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := l.gate.Err(); err != nil {
		return fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	l.peer.theirs = g.Epoch
	l.ready = true
	return nil
}

// RemovePeer ends the transfers and the link, and waits until both are gone.
func (a *agent) RemovePeer(id nixl.PeerID) error {
	a.mu.Lock()
	var l *link
	if p := a.peers[id]; p != nil && p.out != nil && p.out.ready {
		l = p.out
	}
	a.mu.Unlock()
	if l != nil {
		l.stop(fmt.Errorf("%w: we removed it", nixl.ErrGone), byUs)
		<-l.ended
	}
	return nil
}
