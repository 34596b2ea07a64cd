//go:build cgo && linux

package capi

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

const (
	// settleTimeout bounds the wait for the transfers of a link that ends in order.
	settleTimeout = 5 * time.Second
	// brokenTimeout bounds it when the peer is lost: UCX ends what went through a failed
	// endpoint at once.
	brokenTimeout = time.Second
	// farewellTimeout bounds the wait for the answer to a goodbye, leaveTimeout that for the goodbye of
	// a peer that was told that we close.
	farewellTimeout = 500 * time.Millisecond
	leaveTimeout    = time.Second
)

// start begins a link's tasks. The caller holds mu.
func (a *agent) start(l *link) {
	a.tasks.Go(func() { a.serve(l) })
	a.tasks.Go(func() { a.detach(l) })
}

// serve is a link's task: it passes notes on until the link ends, and ends it.
func (a *agent) serve(l *link) {
	defer l.cancel()
	for open := true; open; {
		select {
		case payload := <-l.notes:
			a.pass(l, payload)
		case <-l.quit:
			open = false
		}
	}
	for left := true; left; {
		select {
		case payload := <-l.notes:
			a.pass(l, payload)
		default:
			left = false
		}
	}
	<-l.detached
	a.forget(l)
}

// pass puts a note into the inbox, and tells the peer now and then how many it has taken.
func (a *agent) pass(l *link, payload []byte) {
	if a.inbox.PutNote(l.ctx, nixl.Event{Peer: l.peer.id, Payload: payload}) != nil {
		return // nobody is to get it
	}
	if l.taken.Add(1)%l.telling == 0 {
		_ = a.send(l.peer, l.frame(a.ID(), alive, nil)) // an error stops the link
	}
}

// detach is a link's other task, which no full inbox holds up: once the link ends, it waits
// for the transfers in flight, gives back what NIXL holds, and says goodbye,
// which is our word that nothing is in flight.
func (a *agent) detach(l *link) {
	defer close(l.detached)
	<-l.quit
	if !l.out {
		return
	}
	idle := l.gate.Shut(l.cause)
	limit := settleTimeout
	if l.end == broken || l.end == silent {
		limit = brokenTimeout
	}
	settled := within(limit, idle)
	if !settled {
		close(l.orphaned)
	}
	a.mu.Lock()
	l.peer.orphans++
	a.mu.Unlock()
	if !l.handles.close(inFlight) {
		a.mu.Lock()
		l.peer.orphans--
		a.mu.Unlock()
	}
	if !settled || l.end == broken || a.sendNumbered(l, goodbye, nil) != nil {
		return
	}
	if l.end == byUs {
		within(farewellTimeout, l.farewell)
	}
}

func inFlight(x handle) bool {
	t, is := x.(*transfer)
	if !is {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done != nil && !t.settled
}

// within waits for an event for a time, and tells whether it came.
func within(limit time.Duration, event <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-event:
		return true
	case <-timer.C:
		return false
	}
}

// forget is the last of a link, and tells the receiver if the peer is gone with it.
func (a *agent) forget(l *link) {
	p := l.peer
	a.mu.Lock()
	if p.out == l {
		p.out = nil
	}
	if p.in == l {
		p.in = nil
	}
	last := l.ready && l.end != byUs && p.out == nil && p.in == nil
	a.mu.Unlock()
	a.config.Logger.Info("nixl connection ended", "transport", transport, "peer", p.id.String(), "error", l.cause)
	if last {
		a.inbox.PutGone(p.id, l.cause)
	}
	close(l.ended)
}

// disconnect ends all links: it leaves the peers that we added, and gives the others the
// time to end their transfers.
func (a *agent) disconnect() {
	cause := fmt.Errorf("we closed: %w", nixl.ErrClosed)
	a.mu.Lock()
	a.ended = true
	var ending sync.WaitGroup
	for _, p := range a.peers {
		for _, l := range []*link{p.out, p.in} {
			if l == nil {
				continue
			}
			ending.Go(func() {
				if !l.out && a.sendNumbered(l, leave, nil) == nil {
					within(leaveTimeout, l.quit)
				}
				l.stop(cause, byUs)
				l.cancel()
				<-l.ended
			})
		}
	}
	a.mu.Unlock()
	ending.Wait()
}

// cleanUp runs when no task is left, or when Run never ran.
func (a *agent) cleanUp() error {
	a.inbox.Close()
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.own.close(inFlight)
	a.calls.Lock()
	defer a.calls.Unlock()
	a.destroyed = true
	for _, t := range a.poller.left() {
		_ = a.native.Release(t.request) // the agent's end frees what it does not
	}
	err := a.native.Destroy()
	a.library.Close()
	if err != nil {
		err = fmt.Errorf("destroy the NIXL agent: %w", err)
	}
	return errors.Join(err, a.poller.alarm.close())
}
