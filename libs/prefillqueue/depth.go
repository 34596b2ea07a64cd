package prefillqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Depth is how much is in the queue.
type Depth struct {
	// Waiting jobs were not delivered yet; Working ones were, and have not ended. Jobs
	// given back for later count as working, and so do jobs that are kept for one worker:
	// it takes them soon, or they are taken back.
	Waiting, Working int
	// Oldest is how long the first of the waiting jobs has waited; 0 when none waits.
	Oldest time.Duration
	// At is when this was asked for, by this process's clock.
	At time.Time
}

// depthCache is the last known depth. Its lock is never held over a question to NATS.
type depthCache struct {
	mu     sync.Mutex
	last   Depth
	asking bool
}

// Depth is the depth now, or as of at most DepthAge ago. While somebody asks, others get
// the last known depth, as old as it is. When NATS does not answer within PublishTimeout
// it returns the last known depth (its At is zero if none is) with ErrUnreachable, ErrTimeout,
// ErrNoStream or what NATS said.
func (q *Queue) Depth(ctx context.Context) (Depth, error) {
	d := &q.depth
	d.mu.Lock()
	last := d.last
	fresh := !last.At.IsZero() && time.Since(last.At) <= q.cfg.DepthAge
	if fresh || d.asking && !last.At.IsZero() {
		d.mu.Unlock()
		return last, nil
	}
	d.asking = true
	d.mu.Unlock()

	next, err := q.askDepth(ctx)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.asking = false
	if err != nil {
		return d.last, fmt.Errorf("ask for the queue's depth: %w", cause(ctx, err))
	}
	d.last = next
	return next, nil
}

func (q *Queue) askDepth(ctx context.Context) (Depth, error) {
	if !q.conn.IsConnected() {
		return Depth{}, ErrUnreachable
	}
	ctx, cancel := context.WithTimeout(ctx, q.cfg.PublishTimeout)
	defer cancel()
	at := time.Now()
	var info *jetstream.ConsumerInfo
	stream, consumer, err := q.handles()
	if err == nil {
		info, err = consumer.Info(ctx)
	}
	if missing(err) {
		if err := q.ensure(ctx); err != nil {
			return Depth{}, err
		}
		return Depth{At: at}, nil
	}
	if err != nil {
		return Depth{}, err
	}
	depth := Depth{Waiting: int(info.NumPending), Working: info.NumAckPending, At: at}
	if q.keeps.Load() {
		kept, err := stream.Info(ctx, jetstream.WithSubjectFilter(q.cfg.subject()+".>"))
		if err != nil {
			return Depth{}, err
		}
		for _, n := range kept.State.Subjects {
			depth.Working += int(n)
		}
	}
	if depth.Waiting == 0 {
		return depth, nil
	}
	first, err := stream.GetMsg(ctx, info.Delivered.Stream+1, jetstream.WithGetMsgSubject(q.cfg.subject()))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return depth, nil // it was taken meanwhile
	}
	if err != nil {
		return Depth{}, err
	}
	depth.Oldest = max(0, at.Sub(first.Time))
	return depth, nil
}
