//go:build cgo && linux

package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// take hands a frame to its link. It is the poller's, and never waits.
func (a *agent) take(f frame, now time.Time) {
	a.mu.Lock()
	p := a.peers[f.sender]
	var l *link
	if p != nil {
		if l = p.out; f.adder {
			l = p.in
		}
	}
	a.mu.Unlock()
	if f.kind == hello {
		a.hear(f)
		return
	}
	if l == nil || l.id != f.link {
		if f.kind == welcome && p != nil { // we gave up before it came
			_ = a.send(p, frame{kind: goodbye, adder: true, sender: a.ID(), link: f.link, number: 1})
		}
		return
	}
	l.heard = now
	l.credit(f.taken)
	switch {
	case f.kind == farewell && l.out:
		select {
		case <-l.farewell:
		default:
			close(l.farewell)
		}
	case f.kind == refusal && l.out:
		select {
		case l.answer <- f:
		default:
		}
	case f.kind.numbered():
		turn, err := l.sort(f)
		for _, next := range turn {
			err = errors.Join(err, a.carryOut(l, next))
		}
		if err != nil {
			a.ledger.Add(p.id, nixl.Counters{NotesRefused: 1})
			l.stop(fmt.Errorf("%w: %w", nixl.ErrGone, err), byPeer)
		}
	}
}

// carryOut handles a numbered frame in its turn.
func (a *agent) carryOut(l *link, f frame) error {
	switch {
	case f.kind == note:
		select {
		case l.notes <- f.payload:
			return nil
		default:
			return fmt.Errorf("%w: more notes than were allowed", errFrame)
		}
	case f.kind == welcome && l.out && f.number == 0:
		l.answer <- f // its only frame of number 0
		return nil
	case f.kind == goodbye && !l.out:
		a.mu.Lock()
		l.peer.quiet()
		a.mu.Unlock()
		l.stop(fmt.Errorf("%w: it removed us", nixl.ErrGone), byPeer)
		_ = a.send(l.peer, l.frame(a.ID(), farewell, nil)) // it does not rely on it
		return nil
	case f.kind == leave && l.out:
		l.stop(fmt.Errorf("%w: it has closed", nixl.ErrGone), byPeer)
		return nil
	}
	return fmt.Errorf("%w: type %d out of place", errFrame, f.kind)
}

// hear answers a hello in a task of its own, one for a peer at a time.
func (a *agent) hear(f frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || !f.adder {
		return
	}
	p := a.peer(f.sender)
	if p.greeting {
		p.next = &f
		return
	}
	p.greeting = true
	p.busy++
	a.tasks.Go(func() {
		defer a.atRest(p)
		for next := &f; next != nil; next = a.nextHello(p) {
			if err := a.welcome(p, *next); err != nil {
				a.config.Logger.Warn("nixl peer refused", "transport", transport, "peer", p.id.String(), "error", err)
			}
		}
	})
}

func (a *agent) nextHello(p *peer) *frame {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := p.next
	p.next, p.greeting = nil, next != nil
	return next
}

// welcome makes the sender of a hello a peer, or refuses it.
func (a *agent) welcome(p *peer, f frame) error {
	ctx, cancel := context.WithTimeout(context.Background(), helloTimeout)
	defer cancel()
	var g greeting
	if err := json.Unmarshal(f.payload, &g); err != nil {
		return fmt.Errorf("%w: hello: %w", errFrame, err)
	}
	m, err := nixl.ParseMetadata(g.Metadata)
	if err != nil {
		return err
	}
	at, err := parseAddress(m.Address, m.Regions)
	if err == nil && (m.Peer != p.id || g.Notes < 1 || g.Notes > maxNotes) {
		err = fmt.Errorf("%w: hello of %s for %d notes", errFrame, m.Peer, g.Notes)
	}
	if err == nil {
		err = a.clear(ctx, p, f.link, g.Epoch, string(at.blob))
	}
	if err == nil {
		err = a.load(p, string(at.blob), a.renewed(p, g.Epoch))
	}
	if err != nil {
		return err // without an endpoint there is no answer
	}
	l, err := a.admit(p, f.link, g)
	if err != nil {
		payload, encodeErr := wire.EncodeRefusal(err)
		return errors.Join(err, encodeErr,
			a.send(p, frame{kind: refusal, sender: a.ID(), link: f.link, payload: payload}))
	}
	payload, err := a.greeting(p, p.id)
	if err == nil {
		err = a.send(p, l.frame(a.ID(), welcome, payload))
	}
	if err != nil {
		l.stop(fmt.Errorf("%w: %w", nixl.ErrGone, err), broken)
		return err
	}
	a.config.Logger.Info("nixl peer connected", "transport", transport, "peer", p.id.String())
	return nil
}

// clear ends what a new hello makes void: an earlier link of the peer's, and, when it has
// a new endpoint, ours to its former one.
func (a *agent) clear(ctx context.Context, p *peer, id, epoch uint64, blob string) error {
	a.calls.RLock()
	other := p.loaded && p.blob != blob
	a.calls.RUnlock()
	a.mu.Lock()
	former, ours := p.in, p.out
	moved := other || p.failed || p.theirs != 0 && p.theirs != epoch
	a.mu.Unlock()
	if former != nil {
		if former.id >= id {
			return fmt.Errorf("%w: hello %d after %d", errFrame, id, former.id)
		}
		former.stop(fmt.Errorf("%w: it came again", nixl.ErrGone), broken)
	}
	if moved && ours != nil {
		ours.stop(fmt.Errorf("%w: it came again", nixl.ErrGone), broken)
	}
	for _, l := range []*link{former, ours} {
		if l == nil || l == ours && !moved {
			continue
		}
		select {
		case <-l.ended:
		case <-ctx.Done():
			return fmt.Errorf("%s is connected already: %w", p.id, ctx.Err())
		}
	}
	return nil
}

// renewed tells whether the peer's endpoint is another than the one that ours leads to.
func (a *agent) renewed(p *peer, epoch uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return p.theirs != 0 && p.theirs != epoch
}

// admit counts the peer among those who may write from now on.
func (a *agent) admit(p *peer, id uint64, g greeting) (*link, error) {
	if _, err := g.Check(a.described(), protocolVersion); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return nil, fmt.Errorf("%w: the agent is closed", nixl.ErrGone)
	case a.fenced[p.id]:
		return nil, nixl.ErrFenced
	}
	a.links++
	l := newLink(p, id, false, a.config.Notes)
	l.order, l.expected = a.links, 1
	l.ready = true // a note that overtakes the welcome waits for it
	l.narrow(g.Notes)
	p.in, p.theirs = l, g.Epoch
	if p.writer == nil {
		p.writer = &writer{make(chan struct{})}
	}
	a.start(l)
	return l, nil
}
