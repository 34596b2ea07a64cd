package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// The faults are injected into one cluster, one after the other; each case says what it
// left behind by the difference of the counters before and after.
const (
	lease     = 1500 * time.Millisecond
	ackWait   = time.Second
	noteDelay = 3 * time.Second // longer than a lease, and than a pause of NATS that makes it deliver again
	// The prompts that a fault is meant for are known by their first token or their length.
	twiceToken      = 5
	delayedTokens   = 333
	longTokens      = 1200
	contextTokens   = 2048
	natsAway        = 10 * time.Second
	cancelsInjected = 20
)

// drainOf is how long each decode worker lets its sequences finish: one for as long as they
// take, one for hardly any time.
var drainOf = [2]time.Duration{patience, 100 * time.Millisecond}

func slowShape() cputest.Shape {
	s := cputest.Tiny()
	s.Layers, s.Width, s.Hidden, s.Heads, s.KVHeads = 6, 256, 640, 8, 2
	s.ContextTokens = contextTokens
	return s
}

func TestFaults(t *testing.T) {
	var gates []*gate // between each prefill worker and NATS
	c := start(t, options{
		shape: slowShape(),
		decode: func(i int, d *decodeConfig) {
			d.Drain = drainOf[i]
			d.HandOff.Lease, d.Queue.AckWait, d.TwiceToken = lease, ackWait, twiceToken
			d.Pool.PoolTokens = 16384
		},
		prefill: func(i int, p *prefillConfig) {
			gates = append(gates, newGate(t, strings.TrimPrefix(p.NATS, "nats://")))
			p.NATS = "nats://" + gates[i].address()
			p.Queue.AckWait, p.NoteDelay, p.NoteDelayTokens = ackWait, noteDelay, delayedTokens
		},
	})
	src := newSource(2, slowShape().VocabTokens)
	t.Run("a job that is delivered twice", func(t *testing.T) { c.with(t).publishedTwice(src) })
	t.Run("a live worker's job is redelivered", func(t *testing.T) { c.with(t).redelivered(src) })
	t.Run("a note comes after its lease", func(t *testing.T) { c.with(t).lateNote(src) })
	t.Run("a slow worker writes after a quick one", func(t *testing.T) { c.with(t).slowWriter(src) })
	t.Run("NATS pauses while a job is all but done", func(t *testing.T) { c.with(t).pausedAtTheEnd(src, gates) })
	for _, w := range wrongEntries {
		t.Run("etcd has an entry "+w.name, func(t *testing.T) { c.with(t).wrongEntry(src, w.spoil) })
	}
	t.Run("cancels in every phase", func(t *testing.T) { c.with(t).cancels(src) })
	t.Run("NATS is stopped", func(t *testing.T) {
		nightly(t)
		c.with(t).natsOutage(src, func() { c.signal("nats", syscall.SIGSTOP) }, func() { c.signal("nats", syscall.SIGCONT) })
	})
	t.Run("NATS is killed", func(t *testing.T) {
		c.with(t).natsOutage(src, func() { c.kill("nats") }, func() {
			c.spawn("nats", "nats", serverConfig{c.nats})
			c.await("nats")
		})
	})
	t.Run("a prefill worker drains", func(t *testing.T) { c.with(t).prefillDrains(src) })
	t.Run("a decode worker drains", func(t *testing.T) { c.with(t).decodeDrains(src) })
	t.Run("the drain time of a decode worker ends", func(t *testing.T) { c.with(t).drainTimeEnds(src) })
	t.Run("a decode worker is killed in mid-stream", func(t *testing.T) { c.with(t).killedInMidStream(src) })
	t.Run("a prefill worker is killed", func(t *testing.T) { c.with(t).killed(src) })
}

// with is the cluster within a subtest.
func (c *cluster) with(t *testing.T) *cluster {
	inner := *c
	inner.t = t
	return &inner
}

// batch is requests with the answers they must get.
type batch struct {
	requests []request
	want     []answer
}

// prepare makes requests and answers them locally, then switches to remote prefill.
func (c *cluster) prepare(n int, make func(i int) request) batch {
	c.t.Helper()
	var b batch
	for i := range n {
		b.requests = append(b.requests, make(i))
	}
	b.want = c.references(b.requests)
	c.setPolicy(remote, generationv1.Placement_PLACEMENT_REMOTE)
	c.idle()
	return b
}

// compare fails for answers that differ.
func (c *cluster) compare(b batch, got []answer) (placements map[generationv1.Placement]int) {
	c.t.Helper()
	placements = make(map[generationv1.Placement]int)
	for i := range got {
		if err := same(got[i], b.want[i]); err != nil {
			c.t.Errorf("request %d: %v", i, err)
		}
		placements[got[i].served.GetPlacement()]++
	}
	return placements
}

// askAll asks in the background.
func (c *cluster) askAll(b batch) (wait func() []answer) {
	done := make(chan []answer, 1)
	errs := make(chan error, len(b.requests))
	go func() {
		answers := make([]answer, len(b.requests))
		var work sync.WaitGroup
		for i, r := range b.requests {
			work.Go(func() {
				var err error
				if answers[i], err = c.ask(c.t.Context(), r, nil); err != nil {
					errs <- fmt.Errorf("request %d: %w", i, err)
				}
			})
		}
		work.Wait()
		close(errs)
		done <- answers
	}()
	return func() []answer {
		c.t.Helper()
		answers := <-done
		for err := range errs {
			c.t.Error(err)
		}
		return answers
	}
}

func long(src *source, n int) request {
	return request{prompt: src.tokens(n), maxTokens: 8, seed: src.rnd.Uint64()}
}

// holder waits until exactly one prefill worker works on a job, and answers its number.
func (c *cluster) holder(check func(i int) bool) int {
	c.t.Helper()
	found := -1
	c.eventually("a prefill worker holds the job", func() error {
		for i := range c.prefills {
			if check(i) {
				found = i
				return nil
			}
		}
		return errors.New("none does")
	})
	return found
}

// expect compares counters with what was injected.
func (c *cluster) expect(what string, got, want uint64) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func (c *cluster) publishedTwice(src *source) {
	const n = 10
	b := c.prepare(n, func(int) request {
		r := src.next()
		r.prompt[0] = twiceToken
		return r
	})
	before := c.idle()
	placements := c.compare(b, c.askAll(b)())
	var w work
	c.eventually("every second delivery is answered GONE", func() error {
		if w = difference(before, c.idle()); w.claimsGone != n {
			return fmt.Errorf("%d of %d", w.claimsGone, n)
		}
		return nil
	})
	c.expect("prefilled remotely", uint64(placements[generationv1.Placement_PLACEMENT_REMOTE]), n)
	c.expect("tickets", w.granted, n)
	c.expect("commits", w.committed, n)
}

func (c *cluster) redelivered(src *source) {
	b := c.prepare(1, func(int) request { return long(src, longTokens) })
	before := c.idle()
	wait := c.askAll(b)
	i := c.holder(func(i int) bool {
		now, then := c.describePrefill(i).GetJobs(), before.prefills[i].GetJobs()
		return now.GetClaimsGranted() > then.GetClaimsGranted()
	})
	name := fmt.Sprintf("prefill-%d", i)
	c.signal(name, syscall.SIGSTOP)
	c.eventually("the other worker got the job and was told LATER", func() error {
		other := 1 - i
		now, then := c.describePrefill(other).GetJobs(), before.prefills[other].GetJobs()
		if now.GetRedeliveries() == then.GetRedeliveries() || now.GetClaimsLater() == then.GetClaimsLater() {
			return fmt.Errorf("jobs %v", now)
		}
		return nil
	})
	c.signal(name, syscall.SIGCONT)
	placements := c.compare(b, wait())
	w := difference(before, c.idle())
	c.expect("prefilled remotely", uint64(placements[generationv1.Placement_PLACEMENT_REMOTE]), 1)
	c.expect("tickets", w.granted, 1)
	c.expect("commits", w.committed, 1)
	c.expect("expired tickets", w.expired, 0)
}

func (c *cluster) lateNote(src *source) {
	b := c.prepare(1, func(int) request { return long(src, delayedTokens) })
	before := c.idle()
	wait := c.askAll(b)
	whole := delayedTokens * uint64(before.prefills[0].GetInstance().GetModel().GetKvRowBytes())
	i := c.holder(func(i int) bool { // it has written all, and holds back its note
		return c.describePrefill(i).GetTransport().GetWrittenBytes() == before.prefills[i].GetTransport().GetWrittenBytes()+whole
	})
	name := fmt.Sprintf("prefill-%d", i)
	c.signal(name, syscall.SIGSTOP)
	c.eventually("the lease has ended", func() error {
		if w := difference(decodesOnly(before), c.decodeState()); w.expired != 1 {
			return fmt.Errorf("%d tickets expired", w.expired)
		}
		return nil
	})
	placements := c.compare(b, wait())
	c.signal(name, syscall.SIGCONT)
	var w work
	c.eventually("the late note was refused", func() error {
		if w = difference(decodesOnly(before), c.decodeState()); w.stale+w.gone != 1 {
			return fmt.Errorf("%d stale, %d gone", w.stale, w.gone)
		}
		return nil
	})
	c.idle()
	c.expect("prefilled remotely", uint64(placements[generationv1.Placement_PLACEMENT_REMOTE]), 1)
	c.expect("expired tickets", w.expired, 1)
	c.expect("tickets", w.granted, 2)
}

// decodeState is the state of the decode workers alone: a stopped prefill worker does not answer.
func (c *cluster) decodeState() (s state) {
	c.t.Helper()
	for i := range c.decodes {
		s.decodes = append(s.decodes, c.describeDecode(i))
	}
	return s
}

func decodesOnly(s state) state { return state{decodes: s.decodes} }

func (c *cluster) cancels(src *source) {
	// Whose answer is short may have ended before the cancel comes.
	victims := c.prepare(cancelsInjected+10, func(int) request {
		r := long(src, longTokens)
		r.maxTokens = 64
		return r
	}).longest(cancelsInjected)
	b := c.prepare(6, func(int) request { return src.next() })
	var cancelled sync.WaitGroup
	var mu sync.Mutex
	ended := make(map[codes.Code]int)
	before := c.idle()
	wait := c.askAll(b) // beside those that are cancelled
	for i := range cancelsInjected {
		r := victims.requests[i]
		r.maxTokens, r.salt = contextTokens-longTokens, "cancelled" // and not from the cache
		ctx, cancel := context.WithCancel(c.t.Context())
		cancelled.Go(func() {
			defer cancel()
			chunks := 0
			_, err := c.ask(ctx, r, func() {
				if chunks++; chunks > i/4 { // decoding
					cancel()
				}
			})
			mu.Lock()
			ended[status.Code(err)]++
			mu.Unlock()
		})
		if i%4 != 0 { // queued, claimed, computed, written: as far as it comes by then
			go func() {
				timer := time.NewTimer(time.Duration(i*i) * 3 * time.Millisecond)
				defer timer.Stop()
				select {
				case <-timer.C:
					cancel()
				case <-ctx.Done():
				}
			}()
		}
	}
	cancelled.Wait()
	c.expect("requests that ended as cancelled", uint64(ended[codes.Canceled]), cancelsInjected)
	placements := c.compare(b, wait())
	w := difference(before, c.idle())
	c.t.Logf("ends: %v, of which %d in the hand-off", ended, w.cancelled)
	c.expect("prefilled remotely beside them", uint64(placements[generationv1.Placement_PLACEMENT_REMOTE]), uint64(len(b.requests)))
	c.expect("fallbacks", w.fallback, 0)
	c.expect("transfers that ended by a deadline", w.deadlines, 0)
	if w.cancelled == 0 || w.cancelled == cancelsInjected {
		c.t.Errorf("%d of %d cancels met a hand-off, want some there and some elsewhere", w.cancelled, cancelsInjected)
	}
}

// natsOutage takes NATS away in the middle of traffic.
func (c *cluster) natsOutage(src *source, away, back func()) {
	b := c.prepare(12, func(int) request { return src.next() })
	end := time.After(natsAway)
	away()
	for first := true; first || !passed(end); first = false {
		c.compare(b, c.askAll(b)())
	}
	back()
	probe := newSource(98, 100)
	c.eventually("prompts are computed remotely again", func() error {
		r := request{prompt: probe.tokens(40), maxTokens: 1}
		a, err := c.ask(c.t.Context(), r, nil)
		if err == nil && a.served.GetPlacement() != generationv1.Placement_PLACEMENT_REMOTE {
			err = fmt.Errorf("placed %v", a.served.GetPlacement())
		}
		return err
	})
	placements := c.compare(b, c.askAll(b)())
	c.idle()
	c.t.Logf("after the outage: %v", placements)
}

func passed(end <-chan time.Time) bool {
	select {
	case <-end:
		return true
	default:
		return false
	}
}

func (c *cluster) killed(src *source) {
	b := c.prepare(4, func(int) request { return long(src, longTokens) })
	before := c.idle()
	wait := c.askAll(b)
	i := c.holder(func(i int) bool {
		d := c.describePrefill(i)
		return d.GetJobs().GetClaimsGranted() > before.prefills[i].GetJobs().GetClaimsGranted() && d.GetLoad().GetRunningSequences() > 0
	})
	c.kill(fmt.Sprintf("prefill-%d", i))
	c.compare(b, wait())
	c.prefills = append(c.prefills[:i:i], c.prefills[i+1:]...)
	after := c.idle()
	w := difference(decodesOnly(before), decodesOnly(after))
	if w.fenced == 0 {
		c.t.Error("no ticket of the killed worker was fenced")
	}
	c.expect("tickets (each was committed or fenced)", w.granted, w.notesCommitted+w.fenced+w.byWord)
	quarantined := uint32(0)
	for _, pool := range after.pools() {
		for _, s := range pool.GetStates() {
			if s.GetState() == instancev1.BlockState_BLOCK_STATE_QUARANTINE {
				quarantined += s.GetHighWaterBlocks()
			}
		}
	}
	if quarantined == 0 {
		c.t.Error("no block was ever in QUARANTINE")
	}
}
