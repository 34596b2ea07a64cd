package kvevent

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// phase is what a stream waits for.
type phase uint8

const (
	following phase = iota // for the next event
	seeking                // some are missing: for its time to ask
	due                    // for a place among those that ask
	asking                 // for the snapshot
	ended
)

// stream puts the events of one source in order. What the sink has of the source is exactly
// what was true after event last; events after a missing one wait in the buffer.
type stream struct {
	member *member
	source Source
	phase  phase
	last   uint64
	buffer []span // by first number; following: none
	// buffered is how many events the buffer holds.
	buffered uint64

	when time.Time // of the timer: following, when the report counts; seeking, when to ask
	at   int       // place among the timers; -1: none

	reported uint64 // by the worker
	suspect  uint64 // following with a timer: a reported number that must come until then

	// ahead is what last was when a report first said less, aheadSince when that was; 0: none does.
	ahead      uint64
	aheadSince time.Time

	asked    time.Time // the last request
	failures int       // in a row
	cancel   context.CancelFunc
	attempt  uint64
	counts   SourceCounts
}

// Receive takes a batch, in whatever order, from NATS or another carrier.
func (f *Follower) Receive(b *kveventv1.Batch) {
	span, err := f.check(b)
	if err != nil {
		f.malformed(b.GetWorker(), err)
		return
	}
	if span.end == span.first {
		return
	}
	source := Source{Worker: b.GetWorker(), Incarnation: b.GetIncarnation(), Rank: b.GetDpRank()}
	known := f.deps.Known == nil || f.deps.Known(source)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Batches++
	if !known {
		f.counts.Refused++
		return
	}
	if s, _ := f.streamOf(source, false); s != nil {
		f.take(s, span)
	}
}

// take applies events, or keeps them until those before them are there.
func (f *Follower) take(s *stream, e span) {
	switch {
	case e.end <= s.last+1:
		s.counts.Duplicates++
		f.counts.Duplicates++
	case s.phase == following && e.first <= s.last+1:
		f.apply(s, e)
		f.watch(s)
	default:
		f.keep(s, e)
		if s.phase == following {
			f.seek(s)
		} else if f.applyBuffer(s) {
			f.follow(s) // what was missing was only late
		}
	}
}

func (f *Follower) apply(s *stream, e span) {
	e.apply(f.deps.Sink, s.source, s.last+1)
	f.counts.Events += e.end - (s.last + 1)
	s.last = e.end - 1
}

// keep puts events into the buffer by their number; the oldest go when there are too many.
func (f *Follower) keep(s *stream, e span) {
	e.attempt = s.attempt
	at, _ := slices.BinarySearchFunc(s.buffer, e.first, func(b span, first uint64) int {
		if b.first <= first {
			return -1
		}
		return 1
	})
	s.buffer = slices.Insert(s.buffer, at, e)
	s.buffered += e.end - e.first
	f.buffered += e.end - e.first
	n, kept, all := 0, s.buffered, f.buffered
	for n < len(s.buffer) && (kept > uint64(f.cfg.Buffer) || all > uint64(f.cfg.BufferAll)) {
		size := s.buffer[n].end - s.buffer[n].first
		kept, all = kept-size, all-size
		f.counts.Overflow += size
		n++
	}
	f.unbuffer(s, n)
}

// unbuffer drops the first n entries of the buffer.
func (f *Follower) unbuffer(s *stream, n int) {
	for _, b := range s.buffer[:n] {
		s.buffered -= b.end - b.first
		f.buffered -= b.end - b.first
	}
	s.buffer = slices.Delete(s.buffer, 0, n)
}

// applyBuffer applies what follows on last, and says whether nothing is left: no event that is
// known of is missing.
func (f *Follower) applyBuffer(s *stream) bool {
	n := 0
	for _, b := range s.buffer {
		if b.first > s.last+1 {
			break
		}
		if b.end > s.last+1 {
			f.apply(s, b)
		}
		n++
	}
	if n == 0 {
		return false
	}
	f.unbuffer(s, n)
	return len(s.buffer) == 0
}

// follow goes on without a snapshot, or after one.
func (f *Follower) follow(s *stream) {
	s.drop()
	f.cease(s)
	s.phase = following
	f.watch(s)
}

// watch minds what the worker has reported: if the events have not come that far in time, they
// were lost.
func (f *Follower) watch(s *stream) {
	switch {
	case s.phase != following:
	case s.at >= 0 && s.suspect > s.last: // as long as it had
	case s.reported > s.last:
		s.suspect = s.reported
		f.timers.set(s, time.Now().Add(f.cfg.Silence))
	default:
		f.timers.stop(s)
	}
}

// heard takes what is known of a source otherwise than by its events.
func (f *Follower) heard(source Source, r report) {
	s, begun := f.streamOf(source, true)
	if s == nil {
		return
	}
	s.reported = max(s.reported, r.sequence)
	if r.told && f.beyond(s, r.sequence) {
		f.deps.Sink.Reset(s.source)
		s.last = 0
		f.seek(s)
		return
	}
	if begun && !(r.told && r.sequence == 0) { // a worker that has begun with nothing holds nothing
		f.seek(s)
		return
	}
	f.watch(s)
}

// beyond says that the worker has not come as far as its events pretend: they may be quicker than a report, but
// not by Silence, so that some were not its own.
func (f *Follower) beyond(s *stream, told uint64) bool {
	switch {
	case s.phase != following || told >= s.last:
		s.ahead = 0
	case s.ahead == 0 || told >= s.ahead:
		s.ahead, s.aheadSince = s.last, time.Now()
	default:
		return time.Since(s.aheadSince) > f.cfg.Silence
	}
	return false
}

// seek plans a request for a snapshot.
func (f *Follower) seek(s *stream) {
	if s.last > 0 || !s.asked.IsZero() { // a source that was just met misses nothing that was had
		s.counts.Gaps++
		f.counts.Gaps++
	}
	f.seekAgain(s)
}

func (f *Follower) seekAgain(s *stream) {
	s.phase = seeking
	pause := min(f.cfg.PauseMax, f.cfg.Pause<<min(s.failures, 16))
	now := time.Now()
	when := s.asked.Add(pause)
	if s.failures > 0 {
		when = when.Add(upTo(pause / 2))
	}
	if when.Before(now) {
		when = now
	}
	f.timers.set(s, when.Add(upTo(f.cfg.Jitter)))
	f.signal()
}

func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// drop cancels a request that is under way: its answer is of no use.
func (s *stream) drop() {
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
	}
	s.attempt++
}

// cease takes a stream from wherever it waits.
func (f *Follower) cease(s *stream) {
	f.timers.stop(s)
	if s.phase == due {
		f.ready = slices.DeleteFunc(f.ready, func(other *stream) bool { return other == s })
	}
	s.phase, s.suspect = ended, 0
}
