package frontend

import (
	"context"
	"sync"
	"time"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// serveCaller serves a gRPC caller. A message to one that does not read waits until its call
// ends, whatever becomes of the answer's own context. So the answer is made in a goroutine that
// is left behind in such a message after the time that HTTP clients have, too.
func (s *server) serveCaller(ctx context.Context, a *answer, q question, out sink) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to := newCaller(out, s.cfg.WriteTimeout)
	defer to.timer.Stop()
	answered := make(chan error, 1)
	go func() {
		var err error
		defer func() { answered <- err }()
		defer brokenByPanic(&err)
		err = s.serve(ctx, a, q, to, nil)
	}()
	select {
	case err := <-answered:
		return err
	case <-to.lost:
		return context.Canceled // as for a client that left
	}
}

// caller is the sink of a gRPC caller: it notices when a message is not taken.
type caller struct {
	sink
	patience time.Duration
	timer    *time.Timer // runs while a message is sent
	lost     chan struct{}

	mu    sync.Mutex // guards the rest
	since time.Time  // when the message that is being sent was begun; zero: none is
	over  bool       // lost is closed
}

func newCaller(out sink, patience time.Duration) *caller {
	c := &caller{sink: out, patience: patience, lost: make(chan struct{})}
	c.timer = time.AfterFunc(patience, c.giveUp)
	c.timer.Stop()
	return c
}

// giveUp ends it if a message is still being sent.
func (c *caller) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() && time.Since(c.since) >= c.patience && !c.over {
		c.over = true
		close(c.lost)
	}
}

// send sends one message. After an error nobody may touch the answer: its method may have returned.
func (c *caller) send(message func() error) error {
	c.mu.Lock()
	c.since = time.Now()
	c.mu.Unlock()
	c.timer.Reset(c.patience)
	err := message()
	c.timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = time.Time{}
	if c.over {
		return context.Canceled
	}
	return err
}

func (c *caller) completion(m *generationv1.Completion) error {
	return c.send(func() error { return c.sink.completion(m) })
}

func (c *caller) chunks(m []*generationv1.Chunk) error {
	return c.send(func() error { return c.sink.chunks(m) })
}

func (c *caller) done(m *frontendv1.Done) error {
	return c.send(func() error { return c.sink.done(m) })
}

func (c *caller) keepalive() error { return c.send(c.sink.keepalive) }
