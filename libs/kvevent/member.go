package kvevent

import (
	"slices"
	"time"
)

// member is a worker in its latest known life. The follower's mutex guards it.
type member struct {
	name        string
	incarnation string
	departed    bool // forgotten; it has no ranks, and is kept to tell late events
	departures  int
	asking      bool // a snapshot of one of its ranks is under way
	ranks       []*stream
}

// departure is when a member's late events are forgotten, too.
type departure struct {
	of     *member
	number int // of its departures
	at     time.Time
}

// streamOf finds the stream of a source or begins one. It returns nil for a life that has ended,
// or when too many are followed. A later life of a worker ends the earlier one. A worker that has
// departed returns when it is spoken of; its events alone may be late ones.
func (f *Follower) streamOf(source Source, returns bool) (s *stream, begun bool) {
	m := f.members[source.Worker]
	switch {
	case m == nil:
		if f.streams >= f.cfg.Sources {
			f.counts.Refused++
			return nil, false
		}
		m = &member{name: source.Worker, incarnation: source.Incarnation}
		f.members[source.Worker] = m
	case source.Incarnation < m.incarnation || m.departed && !returns:
		f.counts.Late++
		return nil, false
	case source.Incarnation > m.incarnation:
		if len(m.ranks) > 0 {
			f.log.Info("a worker has begun a new life; what it held is void", "worker_id", m.name, "incarnation", source.Incarnation)
		}
		f.end(m)
		m.incarnation, m.departed = source.Incarnation, false
	default:
		m.departed = false
	}
	for _, s := range m.ranks {
		if s.source.Rank == source.Rank {
			return s, false
		}
	}
	if f.streams >= f.cfg.Sources {
		f.counts.Refused++
		return nil, false
	}
	s = &stream{member: m, source: source, at: -1}
	m.ranks = append(m.ranks, s)
	f.streams++
	return s, true
}

// end lets all that a member held vanish.
func (f *Follower) end(m *member) {
	for _, s := range m.ranks {
		s.drop()
		f.cease(s)
		f.unbuffer(s, len(s.buffer))
		f.deps.Sink.Gone(s.source)
		f.streams--
	}
	m.ranks = nil
}

// depart ends a worker that has left.
func (f *Follower) depart(worker string) {
	m := f.members[worker]
	if m == nil { // what is still on its way must not make it known
		m = &member{name: worker}
		f.members[worker] = m
	}
	f.end(m)
	m.departed = true
	m.departures++
	f.departed = append(f.departed, departure{m, m.departures, time.Now().Add(departedFor)})
}

// expire forgets those that departed long ago, and returns when the next one follows.
func (f *Follower) expire(now time.Time) (next time.Time) {
	n := 0
	for _, d := range f.departed {
		if d.at.After(now) {
			next = d.at
			break
		}
		if d.of.departed && d.of.departures == d.number {
			delete(f.members, d.of.name)
		}
		n++
	}
	f.departed = slices.Delete(f.departed, 0, n)
	return next
}
