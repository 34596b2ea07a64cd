package kvevent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"

	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// content is a whole snapshot.
type content struct {
	sequence uint64
	parts    []span
}

// turn does what is due and returns how long nothing is; 0 is for ever.
func (f *Follower) turn(ctx context.Context) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takeInbox()
	now := time.Now()
	for s := f.timers.pop(now); s != nil; s = f.timers.pop(now) {
		f.fire(s)
	}
	f.ask(ctx, now)
	next := f.expire(now)
	if len(f.timers) > 0 && (next.IsZero() || f.timers[0].when.Before(next)) {
		next = f.timers[0].when
	}
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(now), 1)
}

// fire does what a stream's timer was set for.
func (f *Follower) fire(s *stream) {
	switch {
	case s.phase == seeking:
		s.phase = due
		f.ready = append(f.ready, s)
	case s.suspect > s.last: // following: the events are as far behind as they were
		f.seek(s)
	default:
		f.watch(s)
	}
}

// ask begins the requests for which there is a place, in the order in which they became due.
func (f *Follower) ask(ctx context.Context, now time.Time) {
	waiting := f.ready[:0]
	for i, s := range f.ready {
		if f.asking >= f.cfg.Requests {
			waiting = append(waiting, f.ready[i:]...)
			break
		}
		if s.member.asking {
			waiting = append(waiting, s)
			continue
		}
		f.begin(ctx, s, now)
	}
	clear(f.ready[len(waiting):])
	f.ready = waiting
}

func (f *Follower) begin(ctx context.Context, s *stream, now time.Time) {
	f.asking++
	s.member.asking = true
	s.phase, s.asked = asking, now
	s.attempt++
	attempt := s.attempt
	ctx, s.cancel = context.WithTimeout(ctx, f.cfg.Timeout)
	cancel := s.cancel
	f.fetches.Go(func() {
		defer cancel()
		c, err := f.collect(ctx, s.source)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asking--
		s.member.asking = false
		f.settle(s, attempt, c, err)
		f.signal() // a place is free
	})
}

// settle takes a snapshot, or the news that there is none.
func (f *Follower) settle(s *stream, attempt uint64, c content, err error) {
	if s.phase != asking || s.attempt != attempt {
		return // it is not wanted any more
	}
	s.cancel = nil
	if err == nil && s.failures > 0 { // the first time the snapshot may be an old one
		f.dropInvented(s, c.sequence)
	}
	// Events between the snapshot and the first one in the buffer are in neither.
	stale := err == nil && f.stale(s, c.sequence)
	if err != nil || stale {
		f.counts.SnapshotFailures++
		s.failures++
		if err != nil && s.failures == 1 && !errors.Is(err, context.Canceled) {
			f.log.Warn("a worker gives no snapshot of its blocks, trying on", "worker_id", s.source.Worker, "error", err)
		}
		f.seekAgain(s)
		return
	}
	s.failures = 0
	s.counts.Snapshots++
	f.counts.Snapshots++
	if c.sequence > s.last {
		f.deps.Sink.Reset(s.source)
		for i := range c.parts {
			c.parts[i].apply(f.deps.Sink, s.source, 0)
		}
		s.last = c.sequence
	}
	if len(s.buffer) == 0 || f.applyBuffer(s) {
		f.follow(s)
		return
	}
	f.seek(s) // there is a second gap in the buffer
}

// dropInvented drops events that were there before the worker was asked, and of which it knows nothing
// yet: they are not its own, and would make each snapshot look stale.
func (f *Follower) dropInvented(s *stream, sequence uint64) {
	s.buffer = slices.DeleteFunc(s.buffer, func(b span) bool {
		invented := b.attempt < s.attempt && b.end > sequence+1
		if invented {
			s.buffered -= b.end - b.first
			f.buffered -= b.end - b.first
			f.counts.Malformed++
		}
		return invented
	})
}

// stale says that a snapshot leaves a gap before the first event it does not cover.
func (f *Follower) stale(s *stream, sequence uint64) bool {
	for _, b := range s.buffer {
		if b.end > sequence+1 {
			return b.first > sequence+1
		}
	}
	return false
}

// collect reads a snapshot to its end.
func (f *Follower) collect(ctx context.Context, source Source) (c content, err error) {
	stream, err := f.deps.Snapshot(ctx, source)
	if err != nil {
		return content{}, err
	}
	blocks := 0
	for n := 0; ; n++ {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return content{}, errors.New("the snapshot has no end")
		}
		if err != nil {
			return content{}, err
		}
		if n == 0 {
			c.sequence = part.GetSequence()
		}
		span, err := f.checkPart(part, source, c.sequence)
		if err != nil {
			return content{}, fmt.Errorf("part %d of the snapshot: %w", n, err)
		}
		if blocks += len(part.GetRuns().GetHashes()); blocks > f.cfg.SnapshotBlocks {
			return content{}, fmt.Errorf("the snapshot has %d blocks so far, want at most %d", blocks, f.cfg.SnapshotBlocks)
		}
		if c.parts = append(c.parts, span); part.GetLast() {
			return c, nil
		}
	}
}

// PartsOf makes Parts of the stream that either worker service answers Snapshot with.
func PartsOf[R any, P interface {
	*R
	GetPart() *kveventv1.SnapshotPart
}](stream grpc.ServerStreamingClient[R]) Parts {
	return parts[R, P]{stream}
}

type parts[R any, P interface {
	*R
	GetPart() *kveventv1.SnapshotPart
}] struct{ stream grpc.ServerStreamingClient[R] }

// Recv implements Parts.
func (p parts[R, P]) Recv() (*kveventv1.SnapshotPart, error) {
	r, err := p.stream.Recv()
	if err != nil {
		return nil, err
	}
	return P(r).GetPart(), nil
}
