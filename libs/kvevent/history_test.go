package kvevent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// network carries batches badly, as long as it is bad.
type network struct {
	rnd    *rand.Rand
	f      *Follower
	bad    bool
	flight []*kveventv1.Batch
}

// send puts batches on their way: some twice, some never.
func (n *network) send(batches []*kveventv1.Batch) {
	for _, b := range batches {
		if n.bad && n.rnd.IntN(12) == 0 {
			continue
		}
		n.flight = append(n.flight, b)
		if n.bad && n.rnd.IntN(8) == 0 {
			n.flight = append(n.flight, b)
		}
	}
}

// deliver lets some arrive, in the wrong order now and then.
func (n *network) deliver() {
	for len(n.flight) > 0 {
		i := 0
		if n.bad {
			if n.rnd.IntN(3) == 0 {
				return
			}
			if n.rnd.IntN(6) == 0 {
				i = n.rnd.IntN(len(n.flight))
			}
		}
		n.f.Receive(n.flight[i])
		n.flight = append(n.flight[:i], n.flight[i+1:]...)
	}
}

// TestAnyHistoryEndsInWhatTheWorkersHold drives a few workers through everything that can go
// wrong on the way. As soon as a follower believes that it knows all, it must be right; and once
// the network behaves and the workers are silent, it must know all.
func TestAnyHistoryEndsInWhatTheWorkersHold(t *testing.T) {
	seen := map[string]uint64{}
	seeds := uint64(8)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomHistory(t, seed, seen) })
		})
	}
	for _, name := range []string{
		"proofs", "gaps", "snapshots", "failures", "late", "overflow", "events", "duplicates", "gone", "reset", "removed", "stored",
	} {
		if seen[name] == 0 {
			t.Errorf("%s: none, which is too tame to prove anything", name)
		}
	}
}

// slowParts come some time after they were taken.
type slowParts struct {
	Parts
	ctx   context.Context // of the request
	delay time.Duration
}

// Recv implements Parts.
func (s *slowParts) Recv() (*kveventv1.SnapshotPart, error) {
	select {
	case <-time.After(s.delay):
		return s.Parts.Recv()
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

type worker struct {
	name  string
	lives int
	life  *life // nil: it has left
}

func randomHistory(t *testing.T, seed uint64, seen map[string]uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	sink, workers := newPlain(t), map[string]*worker{}
	bad := true
	var mu sync.Mutex // guards rnd and the workers: requests come when they want
	f := newFollower(t, sink, func(ctx context.Context, s Source) (Parts, error) {
		mu.Lock()
		defer mu.Unlock()
		w := workers[s.Worker]
		if w.life == nil || bad && rnd.IntN(3) == 0 {
			return nil, errors.New("it cannot be reached")
		}
		parts, err := w.life.partsOf(s)
		if err != nil {
			return nil, err
		}
		if bad && rnd.IntN(6) == 0 {
			parts.parts[len(parts.parts)-1].Last = false // cut
		}
		return &slowParts{parts, ctx, time.Duration(rnd.IntN(40)) * time.Millisecond}, nil
	}, func(c *FollowerConfig) { c.Buffer, c.Pause = 24, 20*time.Millisecond })
	n := &network{rnd: rnd, f: f, bad: true}
	for i := range 3 {
		w := &worker{name: fmt.Sprint("w", i)}
		w.begin(t)
		workers[w.name] = w
	}
	start(t, f)
	proved := 0
	for step := range 3000 {
		mu.Lock()
		if step == 2900 {
			n.bad, bad = false, false
		}
		w := workers[fmt.Sprint("w", rnd.IntN(len(workers)))]
		w.act(t, rnd, n, step)
		n.deliver()
		pause := time.Duration(max(0, rnd.IntN(80)-60)) * time.Millisecond // of the bubble's clock
		mu.Unlock()
		time.Sleep(pause)
		synctest.Wait()
		proved += compare(t, f, sink, workers, false)
	}
	for _, w := range workers {
		n.send(w.publish())
		n.deliver()
		if w.life != nil {
			f.Reported(w.life.source(), w.life.pool.Sequence())
		}
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	compare(t, f, sink, workers, true)
	c := f.Counts()
	for name, n := range map[string]uint64{
		"proofs": uint64(proved), "gaps": c.Gaps, "snapshots": c.Snapshots, "failures": c.SnapshotFailures, "late": c.Late,
		"overflow": c.Overflow, "events": c.Events, "duplicates": c.Duplicates,
	} {
		seen[name] += n
	}
	for call, n := range sink.seen {
		seen[call] += uint64(n)
	}
}

func (w *worker) begin(t *testing.T) {
	w.lives++
	w.life = newLife(t, w.name, w.lives)
}

func (w *worker) publish() []*kveventv1.Batch {
	if w.life == nil {
		return nil
	}
	return w.life.publish()
}

func (w *worker) act(t *testing.T, rnd *rand.Rand, n *network, step int) {
	switch what := rnd.IntN(200); {
	case what < 2: // restart; what is under way arrives later than the new life's events
		n.send(w.publish())
		w.begin(t)
	case what == 2 && w.life != nil:
		n.send(w.publish())
		w.life = nil
		n.f.Forget(w.name)
	case w.life == nil:
		if rnd.IntN(20) == 0 || step > 2900 {
			w.begin(t)
			n.f.Follow(w.life.source())
		}
	case what < 20:
		n.f.Reported(w.life.source(), w.life.pool.Sequence())
	case what < 90:
		n.send(w.publish())
	default:
		w.life.work(rnd)
	}
}

// compare returns for how many workers the sink was proved right.
func compare(t *testing.T, f *Follower, sink *plain, workers map[string]*worker, all bool) (proved int) {
	t.Helper()
	stats := map[Source]SourceStats{}
	for _, s := range f.Sources() {
		stats[s.Source] = s
	}
	for _, w := range workers {
		if w.life == nil {
			if sink.knows(w.name) {
				t.Fatalf("%s has left, and something of it is still there", w.name)
			}
			continue
		}
		s := stats[w.life.source()]
		if !s.Complete || s.Sequence != w.life.pool.Sequence() {
			if all {
				t.Fatalf("%+v, want it complete to %d", s, w.life.pool.Sequence())
			}
			continue
		}
		proved++
		sink.check(w.life.source(), w.life.pool)
	}
	return proved
}
