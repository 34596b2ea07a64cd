package worker

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// waysAgent is what a worker's agent is: one of several ways to a peer.
type waysAgent interface {
	nixl.Agent
	nixl.Retirer
	nixl.Chooser
}

// slowAgent is an agent whose transfers take the time of a modelled link, or the real one if
// that is longer. The blocks of a simulated engine are small; on the link each of their bytes
// counts as the bytes that it stands for. One link serves all transfers that the agent posts,
// one after the other, whatever their direction.
type slowAgent struct {
	waysAgent
	link  *slowLink
	scale float64 // of the bytes of the pool's region
}

var _ waysAgent = (*slowAgent)(nil)

// slowLink is a link on which transfers queue.
type slowLink struct {
	bytesPerSecond float64

	mu   sync.Mutex // guards free
	free time.Time
}

// slow puts a link of so many bytes per second in front of an agent; 0 and infinity are none.
func slow(agent nixl.Agent, bytesPerSecond, scale float64) (nixl.Agent, error) {
	if bytesPerSecond <= 0 || math.IsInf(bytesPerSecond, 1) {
		return agent, nil
	}
	ways, ok := agent.(waysAgent)
	if !ok {
		return nil, errors.New("a simulated link needs an agent with ways")
	}
	return &slowAgent{ways, &slowLink{bytesPerSecond: bytesPerSecond}, scale}, nil
}

// book takes the link for a transfer and answers when it is through.
func (l *slowLink) book(bytes float64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(bytes / l.bytesPerSecond * float64(time.Second)))
	return l.free
}

// Create implements nixl.Agent. Transfers made from lists take no longer than they do: no
// worker makes one.
func (a *slowAgent) Create(r nixl.Request) (nixl.Transfer, error) {
	t, err := a.waysAgent.Create(r)
	if err != nil {
		return nil, err
	}
	bytes := 0
	for _, c := range r.Copies {
		bytes += c.Local.Bytes
	}
	s := &slowTransfer{Transfer: t, link: a.link, bytes: float64(bytes), cancelled: make(chan struct{})}
	if r.Local == 0 && r.Remote == 0 { // of pool to pool
		s.bytes *= a.scale
	}
	return s, nil
}

// slowTransfer is over when its bytes have landed and its time on the link has passed.
type slowTransfer struct {
	nixl.Transfer
	link  *slowLink
	bytes float64

	mu        sync.Mutex // guards due
	due       time.Time
	once      sync.Once
	cancelled chan struct{}
}

// Post implements nixl.Transfer.
func (t *slowTransfer) Post(ctx context.Context) error {
	if err := t.Transfer.Post(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due = t.link.book(t.bytes)
	return nil
}

func (t *slowTransfer) rest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.due)
}

// Status implements nixl.Transfer.
func (t *slowTransfer) Status() error {
	err := t.Transfer.Status()
	select {
	case <-t.cancelled:
		return err
	default:
	}
	if err == nil && t.rest() > 0 {
		return nixl.ErrInProgress
	}
	return err
}

// Wait implements nixl.Transfer.
func (t *slowTransfer) Wait(ctx context.Context) error {
	if err := t.Transfer.Wait(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(t.rest())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.cancelled: // all has landed
	case <-ctx.Done():
		return &nixl.UnsettledError{Cause: ctx.Err()}
	}
	return nil
}

// Cancel implements nixl.Transfer.
func (t *slowTransfer) Cancel() {
	t.once.Do(func() { close(t.cancelled) })
	t.Transfer.Cancel()
}
