package kvevent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// rig is a follower of one worker, under the bubble's clock.
type rig struct {
	*Follower
	t    *testing.T
	sink *plain
	life *life
	asks atomic.Int64
	mu   sync.Mutex // guards writes of life, and answer
	// answer, unless nil, changes what the worker answers.
	answer func(ctx context.Context, p *sliceParts) (Parts, error)
}

func (r *rig) setAnswer(answer func(ctx context.Context, p *sliceParts) (Parts, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *rig) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.life = newLife(r.t, "w", 2)
}

func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, sink: newPlain(t), life: newLife(t, "w", 1)}
		r.Follower = newFollower(t, r.sink, func(ctx context.Context, s Source) (Parts, error) {
			r.asks.Add(1)
			r.mu.Lock()
			parts, err := r.life.partsOf(s)
			answer := r.answer
			r.mu.Unlock()
			if err == nil && answer != nil {
				return answer(ctx, parts)
			}
			return parts, err
		})
		start(t, r.Follower)
		test(t, r)
	})
}

func (r *rig) give(batches ...*kveventv1.Batch) {
	for _, b := range batches {
		r.Receive(b)
	}
	synctest.Wait()
}

// want fails unless the sink is right, after so many snapshots.
func (r *rig) want(asks int64, what string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.asks.Load(); got != asks {
		r.t.Fatalf("%s: %d snapshots were asked for, want %d", what, got, asks)
	}
	r.sink.check(r.life.source(), r.life.pool)
}

const jitter, silence = 51 * time.Millisecond, 501 * time.Millisecond // past the default ones

func TestEventsFromTheFirstOnNeedNoSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Reported(r.life.source(), 0)
		r.give(r.life.grow(3), r.life.grow(2))
		time.Sleep(time.Minute)
		r.want(0, "all events came")
	})
}

func TestAWorkerMetInMidSequenceIsAskedOnce(t *testing.T) {
	for name, meet := range map[string]func(r *rig){
		"by its events":  func(r *rig) { r.give(r.life.grow(1)) },
		"by its report":  func(r *rig) { r.Reported(r.life.source(), r.life.pool.Sequence()) },
		"by its joining": func(r *rig) { r.Follow(r.life.source()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.life.grow(5) // nobody hears it
				meet(r)
				time.Sleep(jitter)
				r.want(1, name)
				r.give(r.life.grow(2))
				r.want(1, "what follows")
			})
		})
	}
}

func TestDoubledAndOvertakenBatchesNeedNoSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b, c, d := r.life.grow(3), r.life.grow(1), r.life.grow(4), r.life.grow(2)
		r.give(a, a, c, d, c)
		if s := r.Sources()[0]; s.Complete || s.Sequence != 3 {
			t.Errorf("%+v, want it incomplete after 3", s)
		}
		r.give(b, a, d)
		time.Sleep(time.Minute)
		r.want(0, "the missing one was only late")
	})
}

func TestABatchOfWhichAPartIsKnownGoesOnWithTheRest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		whole := r.life.grow(5)
		r.give(&kveventv1.Batch{
			Worker: whole.GetWorker(), Incarnation: whole.GetIncarnation(), Model: testModel, BlockTokens: testBlock, FirstSequence: 1,
			Runs: &kveventv1.Runs{
				Kinds: whole.Runs.Kinds, Tiers: whole.Runs.Tiers, Blocks: []uint32{2}, Parents: whole.Runs.Parents, Hashes: whole.Runs.Hashes[:2],
			},
		}, whole)
		r.want(0, "an overlap")
	})
}

func TestAGapInTheMiddleIsHealedWhileEventsGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.setAnswer(func(ctx context.Context, p *sliceParts) (Parts, error) {
			return &slowParts{p, ctx, 100 * time.Millisecond}, nil
		})
		r.give(r.life.grow(3))
		r.life.grow(2) // lost
		for range 40 {
			r.give(r.life.grow(1))
			time.Sleep(10 * time.Millisecond)
		}
		r.want(1, "a gap")
		if c := r.Counts(); c.Gaps != 1 || c.Overflow != 0 {
			t.Errorf("%+v, want 1 gap", c)
		}
	})
}

func TestASnapshotOlderThanTheFirstBufferedEventIsAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.give(r.life.grow(1))
		old, err := r.life.partsOf(r.life.source())
		if err != nil {
			t.Fatal(err)
		}
		r.life.grow(2) // lost
		r.setAnswer(func(context.Context, *sliceParts) (Parts, error) { r.setAnswer(nil); return old, nil })
		r.give(r.life.grow(1))
		time.Sleep(jitter)
		if s := r.Sources()[0]; s.Complete || r.Counts().SnapshotFailures != 1 {
			t.Errorf("%+v, %+v: want the old snapshot refused", s, r.Counts())
		}
		time.Sleep(2 * time.Second)
		r.want(2, "an old snapshot")
	})
}

// Of a number that the worker has not come to no snapshot will ever say anything.
func TestAnEventThatTheWorkerNeverSentDoesNotKeepTheSourceIncomplete(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.life.grow(2)
		invented := &kveventv1.Batch{
			Worker: first.GetWorker(), Incarnation: first.GetIncarnation(), Model: testModel, BlockTokens: testBlock, FirstSequence: 1 << 60, Runs: first.GetRuns(),
		}
		r.give(first, invented)
		time.Sleep(5 * time.Second)
		r.want(2, "an invented event")
		if s := r.Sources()[0]; !s.Complete || s.Sequence != 2 || r.Counts().Malformed != 1 || r.buffered != 0 {
			t.Errorf("%+v, %+v, %d events are kept: want it complete at 2", s, r.Counts(), r.buffered)
		}
		r.life.grow(3) // lost
		r.give(r.life.grow(1))
		time.Sleep(5 * time.Second)
		r.want(3, "what was lost later")
	})
}

func TestEventsThatGoOnInTheWorkersNameAreFoundOutByItsReports(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.life.grow(2)
		forged := &kveventv1.Batch{
			Worker: first.GetWorker(), Incarnation: first.GetIncarnation(), Model: testModel, BlockTokens: testBlock, FirstSequence: 3, Runs: &kveventv1.Runs{
				Kinds: []kveventv1.Kind{kveventv1.Kind_KIND_STORED}, Blocks: []uint32{100}, Parents: []uint64{1}, Hashes: make([]uint64, 100),
			},
		}
		r.give(first, forged)
		for range 10 { // all of these are duplicates
			r.give(r.life.grow(1))
			r.Reported(r.life.source(), r.life.pool.Sequence())
			time.Sleep(100 * time.Millisecond)
		}
		r.want(1, "forged events")
		r.give(r.life.grow(1))
		time.Sleep(time.Minute)
		r.want(1, "what follows")
	})
}

func TestAReportThatLagsBehindTheEventsIsNoFault(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var old uint64
		for range 50 { // each report is one event late, for seconds
			r.give(r.life.grow(1))
			r.Reported(r.life.source(), old)
			synctest.Wait()
			old = r.life.pool.Sequence()
			time.Sleep(100 * time.Millisecond)
		}
		r.want(0, "reports that lag")
	})
}

func TestASilentWorkersReportShowsWhatWasLostButNotAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.give(r.life.grow(1))
		late := r.life.grow(2)
		r.Reported(r.life.source(), 3)
		time.Sleep(400 * time.Millisecond)
		r.give(late)
		time.Sleep(time.Minute)
		r.want(0, "the events came after the report, in time")

		lost := r.life.grow(1)
		r.Reported(r.life.source(), 4)
		time.Sleep(300 * time.Millisecond)
		r.life.grow(1) // lost as well
		r.Reported(r.life.source(), 5)
		time.Sleep(100 * time.Millisecond)
		r.give(lost) // what was suspected comes; what was reported after it does not
		time.Sleep(silence)
		time.Sleep(jitter)
		r.want(1, "a report stayed ahead")
	})
}

func TestARestartEndsTheOldLifeAtOnceAndItsLateEventsChangeNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		old := r.life
		r.give(old.grow(3))
		late := old.grow(2)
		r.restart()
		r.give(r.life.grow(1), late)
		if r.sink.of[old.source()] != nil || r.Counts().Late != 1 {
			t.Errorf("the old life is still there: %v, %+v", r.sink.of, r.Counts())
		}
		r.Reported(old.source(), 5) // a report may be late, too
		r.Follow(old.source())
		time.Sleep(time.Minute)
		r.want(0, "a restart")
	})
}

func TestTheSnapshotOfALifeThatHasEndedIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.setAnswer(func(_ context.Context, p *sliceParts) (Parts, error) {
			return &slowParts{p, context.Background(), time.Second}, nil // deaf for its cancelling
		})
		old := r.life
		old.grow(3)
		r.Follow(old.source())
		time.Sleep(jitter)
		r.restart()
		r.give(r.life.grow(1))
		time.Sleep(2 * time.Second)
		r.want(1, "an ended life")
		if r.sink.of[old.source()] != nil {
			t.Error("the old life has come back")
		}
	})
}

func TestAForgottenWorkerVanishesUntilItIsSpokenOf(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.give(r.life.grow(3))
		late := r.life.grow(1)
		r.Forget("w")
		synctest.Wait()
		r.give(late)
		if r.sink.knows("w") || len(r.Sources()) > 0 || r.Counts().Late != 1 {
			t.Errorf("%v, %v, %+v: want nothing left", r.sink.of, r.Sources(), r.Counts())
		}
		r.Follow(r.life.source())
		time.Sleep(jitter)
		r.want(1, "it was there all the time")
		r.Forget("w")
		time.Sleep(2 * departedFor)
		synctest.Wait()
		if len(r.members) != 0 || r.streams != 0 || r.buffered != 0 {
			t.Errorf("%d members, %d streams, %d events are kept of those that left", len(r.members), r.streams, r.buffered)
		}
	})
}

func TestClearedEventsVoidAllTiers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		b := r.life.grow(3)
		r.give(b)
		cleared := &kveventv1.Batch{
			Worker: b.GetWorker(), Incarnation: b.GetIncarnation(), Model: b.GetModel(), BlockTokens: b.GetBlockTokens(), FirstSequence: 4,
			Runs: &kveventv1.Runs{Kinds: []kveventv1.Kind{kveventv1.Kind_KIND_CLEARED}, Blocks: []uint32{0}},
		}
		r.give(cleared)
		if got := r.sink.of[r.life.source()]; len(got[block.Host]) != 0 {
			t.Errorf("%v is left, want nothing", got)
		}
		if s := r.Sources()[0]; s.Sequence != 4 {
			t.Errorf("%+v, want it at 4", s)
		}
	})
}

func TestAWorkerThatAnswersWronglyIsAskedLessAndLess(t *testing.T) {
	for name, spoil := range map[string]func(p *kveventv1.SnapshotPart){
		"another life":       func(p *kveventv1.SnapshotPart) { p.Incarnation = "x" },
		"another block size": func(p *kveventv1.SnapshotPart) { p.BlockTokens++ },
		"no end":             func(p *kveventv1.SnapshotPart) { p.Last = false },
		"removed blocks":     func(p *kveventv1.SnapshotPart) { p.Runs.Kinds[0], p.Runs.Parents = kveventv1.Kind_KIND_REMOVED, nil },
		"columns that do not fit": func(p *kveventv1.SnapshotPart) {
			p.Runs.Hashes = p.Runs.Hashes[1:]
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.life.grow(5)
				r.setAnswer(func(_ context.Context, p *sliceParts) (Parts, error) {
					spoil(p.parts[0])
					return p, nil
				})
				r.Follow(r.life.source())
				time.Sleep(time.Minute)
				if n := r.asks.Load(); n < 5 || n > 15 {
					t.Errorf("asked %d times in a minute, want 5 to 15", n)
				}
				r.setAnswer(nil)
				time.Sleep(20 * time.Second)
				r.sink.check(r.life.source(), r.life.pool)
			})
		})
	}
}

func TestThousandsOfWorkersThatJoinAtOnceAreAskedAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, ranks = 2000, 2
		var now, most, all atomic.Int64
		busy := map[string]*atomic.Int64{}
		for i := range workers {
			busy[fmt.Sprint("w", i)] = new(atomic.Int64)
		}
		sink := newPlain(t)
		f := newFollower(t, sink, func(_ context.Context, s Source) (Parts, error) {
			if busy[s.Worker].Add(1) > 1 {
				t.Errorf("%s is asked for two snapshots at a time", s.Worker)
			}
			defer busy[s.Worker].Add(-1)
			defer now.Add(-1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Millisecond)
			all.Add(1)
			return &sliceParts{[]*kveventv1.SnapshotPart{{
				Incarnation: s.Incarnation, DpRank: s.Rank, Sequence: 9, BlockTokens: testBlock, Last: true,
			}}}, nil
		})
		start(t, f)
		for name := range busy {
			for rank := range uint32(ranks) {
				f.Follow(Source{Worker: name, Incarnation: "1", Rank: rank})
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if c := f.Counts(); c.Snapshots != workers*ranks || all.Load() != workers*ranks || most.Load() != int64(f.cfg.Requests) {
			t.Errorf("%d snapshots by %d requests, %d at a time; want %d, each once, %d at a time",
				c.Snapshots, all.Load(), most.Load(), workers*ranks, f.cfg.Requests)
		}
	})
}

func TestMoreSourcesThanAreFollowedAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t, newPlain(t), func(context.Context, Source) (Parts, error) { return nil, errors.New("none") },
			func(c *FollowerConfig) { c.Sources = 2 })
		start(t, f)
		for i := range 5 {
			f.Receive(newLife(t, fmt.Sprint("w", i), 1).grow(1))
		}
		if c := f.Counts(); c.Refused != 3 || len(f.Sources()) != 2 {
			t.Errorf("%+v with %d sources, want 3 refused", c, len(f.Sources()))
		}
	})
}

// Whoever can publish could otherwise end a worker's life with a later one, or take all the places.
func TestEventsOfUnknownSourcesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, known := newPlain(t), newLife(t, "w", 1)
		f := newFollower(t, sink, func(context.Context, Source) (Parts, error) { return nil, errors.New("none") },
			func(c *FollowerConfig) { c.Sources = 2 })
		f.deps.Known = func(s Source) bool { return s == known.source() }
		start(t, f)
		f.Receive(known.grow(3))
		f.Receive(newLife(t, "w", 2).grow(1))
		for i := range 5 {
			f.Receive(newLife(t, fmt.Sprint("stranger", i), 1).grow(1))
		}
		f.Receive(known.grow(1))
		if c := f.Counts(); c.Refused != 6 || len(f.Sources()) != 1 {
			t.Errorf("%+v with %d sources, want 6 refused and 1 source", c, len(f.Sources()))
		}
		sink.check(known.source(), known.pool)
	})
}

func TestBatchesThatCannotBeUsedAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t, newPlain(t), nil)
		start(t, f)
		spoils := []func(b *kveventv1.Batch){
			func(b *kveventv1.Batch) { b.Model = "other" },
			func(b *kveventv1.Batch) { b.BlockTokens++ },
			func(b *kveventv1.Batch) { b.Worker = "" },
			func(b *kveventv1.Batch) { b.Incarnation = strings.Repeat("x", nameBytes+1) },
			func(b *kveventv1.Batch) { b.FirstSequence = 0 },
			func(b *kveventv1.Batch) { b.FirstSequence = ^uint64(0) },
			func(b *kveventv1.Batch) { b.Runs.Blocks[0]++ },
			func(b *kveventv1.Batch) { b.Runs.Blocks = nil },
			func(b *kveventv1.Batch) { b.Runs.Kinds[0] = 9 },
			func(b *kveventv1.Batch) { b.Runs.Tiers[0] = -1 },
			func(b *kveventv1.Batch) { b.Runs.Tiers = append(b.Runs.Tiers, 0) },
			func(b *kveventv1.Batch) { b.Runs.Parents = nil },
			func(b *kveventv1.Batch) { b.Runs.Parents = append(b.Runs.Parents, 1) },
			func(b *kveventv1.Batch) { b.Runs.Hashes = append(b.Runs.Hashes, 1) },
		}
		for _, spoil := range spoils {
			b := newLife(t, "w", 1).grow(2)
			spoil(b)
			f.Receive(b)
		}
		if c := f.Counts(); c.Malformed != uint64(len(spoils)) || len(f.Sources()) != 0 {
			t.Errorf("%+v, want %d malformed and no source", c, len(spoils))
		}
	})
}

func TestConfigsThatCannotBeNameTheField(t *testing.T) {
	for field, change := range map[string]func(*FollowerConfig){
		"model":           func(c *FollowerConfig) { c.Model = "" },
		"block_tokens":    func(c *FollowerConfig) { c.BlockTokens = -1 },
		"sources":         func(c *FollowerConfig) { c.Sources = 0 },
		"buffer":          func(c *FollowerConfig) { c.Buffer = 0 },
		"buffer_all":      func(c *FollowerConfig) { c.BufferAll = 0 },
		"requests":        func(c *FollowerConfig) { c.Requests = 0 },
		"snapshot_blocks": func(c *FollowerConfig) { c.SnapshotBlocks = 0 },
		"jitter":          func(c *FollowerConfig) { c.Jitter = -1 },
		"pause":           func(c *FollowerConfig) { c.Pause = 0 },
		"timeout":         func(c *FollowerConfig) { c.Timeout = 0 },
		"silence":         func(c *FollowerConfig) { c.Silence = 0 },
	} {
		cfg := DefaultFollowerConfig(Decode, testModel, testBlock)
		change(&cfg)
		if _, err := NewFollower(cfg, Deps{Logger: discard()}); err == nil || !strings.Contains(err.Error(), field+" is") {
			t.Errorf("%s: %v, want its name", field, err)
		}
	}
}
