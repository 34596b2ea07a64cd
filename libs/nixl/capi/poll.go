//go:build cgo && linux

package capi

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl/capi/internal/native"
)

// How the poller waits after the latest thing that happened: it spins, then sleeps for a share
// of the time since, so that it is late by that share at most.
const (
	spinTime     = 100 * time.Microsecond
	flyingSpin   = time.Millisecond      // while a transfer is in flight
	receivePause = 20 * time.Microsecond // while it spins: asking for notes locks out posts
	restShare    = 32
	maxRest      = 250 * time.Microsecond
	idleAfter    = 20 * time.Millisecond // without a transfer in flight
	idleRest     = time.Millisecond
	quietAfter   = time.Second // and then
	quietRest    = 2 * time.Millisecond
	unlinkedRest = 10 * time.Millisecond // without a peer
)

// poller holds the transfers in flight.
type poller struct {
	alarm   *alarm
	resting atomic.Bool // it may sleep long

	mu     sync.Mutex
	posted []*transfer // not seen by the polling goroutine yet
	flying []*transfer // its own, but for left
}

func (p *poller) add(t *transfer) {
	p.mu.Lock()
	p.posted = append(p.posted, t)
	p.mu.Unlock()
	if p.resting.Load() {
		_ = p.alarm.set(0) // it wakes up by itself as well, later
	}
}

// left are the transfers in flight when nobody polls any more.
func (p *poller) left() []*transfer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(p.flying, p.posted...)
}

func (a *agent) Run(ctx context.Context) error { return a.life.Run(ctx, a.run) }

func (a *agent) Close() error { return a.life.Close() }

func (a *agent) run(ctx context.Context) error {
	stop := make(chan struct{})
	polled := make(chan error, 1)
	go func() { polled <- a.poll(stop) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-polled: // nothing moves any more
		polled <- nil
	}
	a.disconnect()
	a.tasks.Wait()
	close(stop)
	return errors.Join(err, <-polled)
}

// poll asks NIXL for the ends of transfers and for notes. It needs no thread of its own: UCX is
// used by many.
func (a *agent) poll(stop <-chan struct{}) error {
	latest, kept := time.Now(), time.Now()
	var received time.Time
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		happened := a.check()
		now := time.Now()
		if now.Sub(received) >= receivePause {
			happened = a.receive() || happened
			received = now
		}
		if passed := now.Sub(kept); passed >= a.config.Alive {
			a.keep(now, passed)
			kept = now
		}
		if happened {
			latest = now
		}
		if err := a.rest(now.Sub(latest)); err != nil {
			return fmt.Errorf("rest between polls: %w", err)
		}
	}
}

// rest waits a little, or until a transfer is posted.
func (a *agent) rest(since time.Duration) error {
	p := &a.poller
	switch {
	case since < spinTime, since < flyingSpin && len(p.flying) > 0:
		runtime.Gosched()
		return nil
	case len(p.flying) > 0 || since < idleAfter:
		return p.alarm.sleep(min(since/restShare, maxRest))
	}
	limit := idleRest
	if since > quietAfter {
		limit = quietRest
	}
	a.mu.Lock()
	if len(a.peers) == 0 {
		limit = unlinkedRest
	}
	a.mu.Unlock()
	p.resting.Store(true)
	defer p.resting.Store(false)
	p.mu.Lock()
	posted := len(p.posted) > 0
	p.mu.Unlock()
	if posted {
		return nil
	}
	return p.alarm.sleep(limit)
}

// check settles what has ended, and tells whether anything was posted or has ended.
func (a *agent) check() (happened bool) {
	p := &a.poller
	p.mu.Lock()
	happened = len(p.posted) > 0
	p.flying = append(p.flying, p.posted...)
	p.posted = p.posted[:0]
	p.mu.Unlock()
	kept := p.flying[:0]
	for _, t := range p.flying {
		a.calls.RLock()
		err := a.native.Status(t.request)
		a.calls.RUnlock()
		if errors.Is(err, native.InProgress) {
			kept = append(kept, t)
			continue
		}
		happened = true
		t.settle(err)
	}
	clear(p.flying[len(kept):])
	p.flying = kept
	return happened
}

// receive takes in what peers have sent.
func (a *agent) receive() bool {
	a.calls.RLock()
	notes, err := a.native.Receive()
	a.calls.RUnlock()
	if err != nil {
		a.config.Logger.Warn("nixl receive", "transport", transport, "error", err)
	}
	now := time.Now()
	for _, n := range notes {
		f, err := parseFrame(n.Payload)
		if err == nil && (n.From != nixlName(f.sender) || f.sender == a.ID()) {
			err = fmt.Errorf("%w: %s says to be %s", errFrame, n.From, f.sender)
		}
		if err != nil {
			a.ledger.Refused()
			a.config.Logger.Warn("nixl note refused", "transport", transport, "error", err)
			continue
		}
		a.take(f, now)
	}
	return len(notes) > 0
}
