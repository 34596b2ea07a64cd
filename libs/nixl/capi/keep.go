//go:build cgo && linux

package capi

import (
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// keep says that we live, ends the links of silent peers, and lets NIXL forget those whose
// endpoints have failed and with whom nothing is left. The endpoints of living peers stay: UCX
// keeps a TCP connection open for either side's, so that each new one would cost another. passed is the time since it was called last. It is the poller's.
func (a *agent) keep(now time.Time, passed time.Duration) {
	type sign struct {
		to *peer
		frame
	}
	var signs []sign
	var unused []*peer
	a.mu.Lock()
	for _, p := range a.peers {
		for _, l := range []*link{p.out, p.in} {
			if l != nil && l.ready && a.lives(l, now, passed) {
				signs = append(signs, sign{p, l.frame(a.ID(), alive, nil)})
			}
		}
		a.prove(p, now)
		if p.loaded && p.in == nil && p.out == nil && p.severed.IsZero() { // has the endpoint failed meanwhile?
			signs = append(signs, sign{p, frame{kind: alive, sender: a.ID()}})
		}
		if p.unused() {
			unused = append(unused, p)
		}
	}
	a.mu.Unlock()
	for _, s := range signs {
		_ = a.send(s.to, s.frame) // an error stops the peer's links
	}
	for _, p := range unused {
		if err := a.unload(p); err != nil {
			a.config.Logger.Warn("nixl peer not unloaded", "transport", transport, "peer", p.id.String(), "error", err)
		}
	}
}

// lives ends a link whose peer is silent.
func (a *agent) lives(l *link, now time.Time, passed time.Duration) bool {
	if passed > 2*a.config.Alive { // it was us who stood still
		l.heard = l.heard.Add(passed)
	}
	if since := now.Sub(l.heard); since > a.config.Silence {
		l.stop(fmt.Errorf("%w: no sign of life for %s", nixl.ErrGone, since.Round(time.Millisecond)), silent)
		return false
	}
	return true
}

// unused tells whether nothing is left with a peer. The caller holds the agent's mu.
func (p *peer) unused() bool {
	return p.out == nil && p.in == nil && p.writer == nil && p.orphans == 0 && p.busy == 0 && (!p.loaded || !p.severed.IsZero())
}

// unload forgets a peer, unless somebody has come to need it.
func (a *agent) unload(p *peer) error {
	a.calls.Lock()
	defer a.calls.Unlock()
	a.mu.Lock()
	unused := p.unused()
	if unused {
		delete(a.peers, p.id)
	}
	a.mu.Unlock()
	if !unused || !p.loaded || a.destroyed {
		return nil
	}
	return a.unloadLocked(p)
}
