//go:build cgo && linux

package capi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// peer is another agent: what NIXL knows of it, and the links with it.
type peer struct {
	id   nixl.PeerID
	name string // in NIXL

	loaded bool // written under the agent's calls and mu, read under either

	// Guarded by the agent's calls, and written under its exclusive side.
	blob  string
	epoch uint64 // numbers the load: each has an endpoint of its own

	// Guarded by the agent's mu.
	out, in  *link
	failed   bool      // UCX reported an error of something that went through the endpoint
	severed  time.Time // when the endpoint itself was first found to have failed; zero: not
	theirs   uint64    // the peer's epoch
	writer   *writer   // it may write our memory
	orphans  int       // links that left requests in flight
	busy     int       // dials and answers to hellos in progress
	greeting bool      // a hello is being answered
	next     *frame    // the latest hello that came meanwhile
}

// nixlName is an agent's name in NIXL, which takes no zero byte and tells no
// incarnations apart.
func nixlName(id nixl.PeerID) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%s", len(id.Name), id.Name, id.Incarnation))
	return hex.EncodeToString(sum[:16])
}

// peer returns the entry of a peer, and makes it. The caller holds mu.
func (a *agent) peer(id nixl.PeerID) *peer {
	p := a.peers[id]
	if p == nil {
		p = &peer{id: id, name: nixlName(id)}
		a.peers[id] = p
	}
	return p
}

// load makes NIXL know a peer, with a new endpoint if the one at hand is unusable. No
// link of the peer may be in use then.
func (a *agent) load(p *peer, blob string, renew bool) error {
	a.mu.Lock()
	renew = renew || p.failed
	orphans := p.orphans
	a.mu.Unlock()
	a.calls.Lock()
	defer a.calls.Unlock()
	if a.destroyed {
		return nixl.ErrClosed
	}
	if p.loaded && !renew && p.blob == blob {
		return nil
	}
	if p.loaded {
		if orphans > 0 {
			return fmt.Errorf("%w: transfers with it have not ended", nixl.ErrUnreachable)
		}
		if err := a.unloadLocked(p); err != nil {
			return fmt.Errorf("%w: forget its metadata: %w", nixl.ErrUnreachable, err)
		}
	}
	name, err := a.native.Load([]byte(blob))
	if err != nil {
		return fmt.Errorf("%w: load its metadata: %w", nixl.ErrUnreachable, err)
	}
	if name != p.name {
		return fmt.Errorf("%w: its metadata is that of another NIXL agent: %w", nixl.ErrUnreachable, a.native.Invalidate(name))
	}
	a.epochs++
	p.blob, p.epoch = blob, a.epochs
	a.mu.Lock()
	p.loaded = true
	p.failed, p.severed = false, time.Time{}
	a.mu.Unlock()
	return nil
}

// unloadLocked gives up the endpoint. The caller holds calls; no request of the peer is left.
func (a *agent) unloadLocked(p *peer) error {
	p.blob = ""
	a.mu.Lock()
	p.loaded = false
	a.mu.Unlock()
	return a.native.Invalidate(p.name)
}

// send gives a frame to the peer's endpoint. An error is the end of all links with it.
func (a *agent) send(p *peer, f frame) error {
	a.calls.RLock()
	usable := !a.destroyed && p.loaded
	var err error
	if usable {
		err = a.native.Notify(p.name, f.encode())
	}
	a.calls.RUnlock()
	switch {
	case !usable:
		return fmt.Errorf("%w: its endpoint is closed", nixl.ErrGone)
	case err != nil:
		a.mu.Lock()
		if p.severed.IsZero() {
			p.severed = time.Now()
		}
		a.mu.Unlock()
		a.fail(p, err)
		return fmt.Errorf("%w: %w", nixl.ErrGone, err)
	}
	return nil
}

// sendNumbered gives the next numbered frame to a link.
func (a *agent) sendNumbered(l *link, k kind, payload []byte) error {
	l.sendMu.Lock()
	defer l.sendMu.Unlock()
	f := l.frame(a.ID(), k, payload)
	f.number = l.sent
	l.sent++
	return a.send(l.peer, f)
}

// fail notes that the peer's endpoint is broken.
func (a *agent) fail(p *peer, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !p.failed {
		p.failed = true
		a.config.Logger.Info("nixl endpoint failed", "transport", transport, "peer", p.id.String(), "error", err)
	}
	for _, l := range []*link{p.out, p.in} {
		if l != nil {
			l.stop(fmt.Errorf("%w: its endpoint failed: %w", nixl.ErrGone, err), broken)
		}
	}
}
