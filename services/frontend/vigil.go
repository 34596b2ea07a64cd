package frontend

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// vigil watches over the goroutine of an answer while it waits for the processor: it ends a wait
// that is too long, and lets the client of a stream know meanwhile that it is there. How long
// is too long depends on whether a choice has begun that has not ended, since the others may
// wait in a queue.
//
// It has a timer, which is armed when that changes and whenever it fires, so that a token costs
// nothing but the notes of its wait.
type vigil struct {
	first, idle time.Duration // the bounds; 0: none
	keepalive   time.Duration // the longest silence; 0: it may be any
	greet       func() error  // breaks it; only begun while the goroutine waits
	exchange    *exchange     // whose client is greeted; nil for a gRPC caller
	cancel      context.CancelCauseFunc

	mu        sync.Mutex // guards the rest
	timer     *time.Timer
	stopped   bool
	state     state
	waiting   bool
	deadline  time.Time     // of the wait
	greeting  time.Time     // when the client is greeted, if the wait is not over by then
	suspected bool          // the deadline has passed once
	greeted   chan struct{} // closed when the client was greeted; nil: it is not under way
}

// state is how far an answer has come.
type state struct {
	begun   bool // a chunk was passed on; before that an error must still be able to have its status
	talking bool // the bound that holds is idle
}

// watch begins with the dispatch of an answer. A wait that is too long ends with cancel. For a
// stream greet sends a keepalive; x is nil for a gRPC caller.
func watch(cfg Config, cancel context.CancelCauseFunc, greet func() error, x *exchange) *vigil {
	v := &vigil{first: cfg.FirstToken, idle: cfg.StreamIdle, greet: greet, exchange: x, cancel: cancel}
	if greet != nil {
		v.keepalive = cfg.Keepalive
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.timer = time.AfterFunc(math.MaxInt64, v.look)
	v.arm(time.Now())
	return v
}

// stop ends the vigil. If the client is just being greeted, and does not read, what else is written
// to it has to wait for that.
func (v *vigil) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stopped = true
	v.timer.Stop()
	if v.greeted != nil && v.exchange != nil {
		v.exchange.greeted = v.greeted
	}
}

// limit is the bound that holds now; 0: none.
func (v *vigil) limit() time.Duration {
	if v.state.talking {
		return v.idle
	}
	return v.first
}

// wait notes that the goroutine waits from now on.
func (v *vigil) wait(s state) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := s != v.state
	v.state, v.waiting, v.suspected = s, true, false
	v.deadline, v.greeting = now.Add(v.limit()), now.Add(v.keepalive)
	if changed {
		v.arm(now)
	}
}

// heard notes that the wait is over, and tells when. The client can be written to then, unless ctx
// has ended.
func (v *vigil) heard(ctx context.Context) time.Time {
	v.mu.Lock()
	v.waiting = false
	greeted := v.greeted
	v.mu.Unlock()
	if greeted != nil {
		select {
		case <-greeted:
		case <-ctx.Done():
		}
	}
	return time.Now()
}

// arm sets the timer to the next time at which there may be something to do. A wait that
// begins later cannot be due before.
func (v *vigil) arm(now time.Time) {
	next := time.Duration(math.MaxInt64)
	soonest := func(bounded bool, at time.Time, otherwise time.Duration) {
		switch {
		case !bounded:
		case v.waiting:
			next = min(next, at.Sub(now))
		default:
			next = min(next, otherwise)
		}
	}
	soonest(v.limit() > 0, v.deadline, v.limit())
	soonest(v.keepalive > 0 && v.state.begun, v.greeting, v.keepalive)
	v.timer.Reset(next)
}

// grace is how much longer a silence is listened to; less where the limit is short.
const grace = time.Second

// look does what is due when the timer has fired.
func (v *vigil) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if v.stopped {
		return
	}
	if v.waiting && v.limit() > 0 && !now.Before(v.deadline) && !v.bear(now) {
		v.cancel(openai.TimedOut(fmt.Sprintf("The model sent nothing for %v. The generation was stopped.", v.limit())))
		return
	}
	due := v.waiting && v.keepalive > 0 && v.state.begun && !now.Before(v.greeting)
	if due {
		v.greeting = now.Add(v.keepalive)
	}
	v.arm(now)
	if due && v.greeted == nil {
		v.greetNow()
	}
}

// greetNow greets the client, for which mu is let go: it may take long.
func (v *vigil) greetNow() {
	greeted := make(chan struct{})
	v.greeted = greeted
	v.mu.Unlock()
	err := v.greet()
	v.mu.Lock()
	v.greeted = nil
	close(greeted)
	if err != nil {
		v.cancel(context.Canceled)
	}
}

// late is how much later than it should a timer fires only where this process did not run.
const late = 100 * time.Millisecond

// bear says whether a wait may go on beyond its deadline. This process may have been stopped
// while the chunk came: then, and always where an answer has begun, it must be silent twice, the
// second time after a while in which it was listened to.
func (v *vigil) bear(now time.Time) bool {
	if v.suspected || !v.state.talking && now.Sub(v.deadline) < late {
		return false
	}
	v.suspected, v.deadline = true, now.Add(min(grace, v.limit()/8))
	return true
}
