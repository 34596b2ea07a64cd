package tcp

import (
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/grants"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// server is a data connection of a peer that added us: it receives requests, and sends
// answers in their order.
type server struct {
	*conn
	link    *link
	regions []*region.Region
	grant   nixl.Grant // names the grant of a request

	// The bytes that are being received; the reading loop's own.
	into    vector
	passage passage
	digest  digest

	// The answers that are being sent; the writing loop's own.
	out        []byte
	outPassage passage
	outDigest  digest

	wake    chan struct{}
	mu      sync.Mutex // guards all below
	answers [window]answer
	first   int
	waiting int
}

// answer is what a request has come to.
type answer struct {
	transfer uint64
	err      error
	// entry is set for bytes that are to be read.
	entry  *grants.Entry
	region *region.Region
	flags  byte
	bytes  vector
}

func (l *link) newServer(c *conn) *server {
	return &server{conn: c, link: l, regions: l.agent.regions.Seal(), wake: make(chan struct{}, 1)}
}

func (s *server) read() { s.conn.read(s.receive, s.link.stop) }

func (s *server) receive(k wire.Kind, payload []byte) error {
	if k != kindWrite && k != kindRead {
		return outOfPlace(k)
	}
	r, runs, err := parseRequest(payload)
	if err != nil {
		return err
	}
	if k == kindWrite {
		return s.receiveWrite(r, runs)
	}
	return s.receiveRead(r, runs)
}

// receiveWrite lets the bytes into the region, or reads past them.
func (s *server) receiveWrite(r requestHead, runs []byte) error {
	entry, at, refused := s.resolve(nixl.Write, r, runs, &s.into)
	if refused == nil {
		s.passage.reset(nil, &s.link.gate, &entry.Gate, &at.Gate)
		if r.flags&flagVerified != 0 {
			s.passage.reset(&s.digest, &s.link.gate, &entry.Gate, &at.Gate)
		}
		if err := s.reader.into(&s.into, &s.passage); err != nil {
			return err
		}
	} else {
		s.passage.reset(nil)
		if err := s.reader.discard(r.bytes); err != nil {
			return err
		}
	}
	given, err := s.trailer(&s.passage)
	if err != nil {
		return err
	}
	if refused == nil {
		refused = given
	}
	if err := s.answer(func(a *answer) { a.transfer, a.err, a.entry = r.transfer, refused, nil }); err != nil {
		return err
	}
	return suspicious(refused)
}

func (s *server) receiveRead(r requestHead, runs []byte) error {
	return s.answer(func(a *answer) {
		a.transfer, a.flags = r.transfer, r.flags
		a.entry, a.region, a.err = s.resolve(nixl.Read, r, runs, &a.bytes)
		if a.err != nil {
			a.entry = nil
		}
	})
}

// resolve finds the bytes of a request, all of them, if the peer may touch them.
func (s *server) resolve(op nixl.Op, r requestHead, runs []byte, v *vector) (*grants.Entry, *region.Region, error) {
	at, err := region.Find("local", s.regions, r.region)
	if err != nil {
		return nil, nil, err
	}
	s.grant.Number = r.grant
	entry, err := s.link.agent.grants.Find(s.link.peer, op, r.region, &s.grant)
	if err != nil {
		return nil, nil, err
	}
	size, named := at.Info().Layout.BlockBytes(), r.flags&flagNamed != 0
	v.reset(at.Bytes())
	for range r.runs {
		var next run
		if next, runs, err = nextRun(runs, named, size); err != nil {
			return nil, nil, err
		}
		if err := entry.Has(next.ref, named); err != nil {
			return nil, nil, err
		}
		v.add(int(next.ref.ID)*size+next.offset, next.bytes)
	}
	if len(runs) != 0 || v.bytes != r.bytes {
		return nil, nil, fmt.Errorf("%d runs have %d bytes and %d to spare, want %d: %w", r.runs, v.bytes, len(runs), r.bytes, nixl.ErrDescriptor)
	}
	return entry, at, nil
}

// answer queues one. A peer that keeps to the window always finds a place.
func (s *server) answer(set func(*answer)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link.gate.Err() != nil {
		return nil // the goodbye says it
	}
	if s.waiting == window {
		return fmt.Errorf("%w: more than %d requests without an answer", wire.ErrFrame, window)
	}
	set(&s.answers[(s.first+s.waiting)%window])
	s.waiting++
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// front is the next answer; it stays in its place until it is popped.
func (s *server) front() *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		return nil
	}
	return &s.answers[s.first]
}

func (s *server) pop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = (s.first + 1) % window
	s.waiting--
}

func (s *server) write() {
	for {
		err := s.sendAnswers()
		if s.link.gate.Err() != nil && err == nil {
			err = s.sendAnswers() // nothing is added any more
			s.farewell(s.link.goodbye())
			return
		}
		if err != nil {
			s.link.stop(gone(err))
			return
		}
		select {
		case <-s.wake:
		case <-s.beats:
			if err := s.send(beatFrame); err != nil {
				s.link.stop(gone(err))
				return
			}
		case <-s.link.stopping:
		}
	}
}

// sendAnswers sends all that is queued; those without bytes together.
func (s *server) sendAnswers() error {
	s.out = s.out[:0]
	for a := s.front(); a != nil; a = s.front() {
		if a.entry != nil {
			s.outPassage.reset(nil, &s.link.gate, &a.entry.Gate, &a.region.Gate)
			a.err = s.outPassage.check()
		}
		if a.entry == nil || a.err != nil {
			s.out = appendAnswer(s.out, a.transfer, a.err)
		} else if err := s.sendData(a); err != nil {
			return err
		}
		s.pop()
	}
	if len(s.out) == 0 {
		return nil
	}
	return s.send(s.out)
}

// sendData sends the answers before it as well.
func (s *server) sendData(a *answer) error {
	flags := byte(0)
	if a.flags&flagVerified != 0 {
		flags = flagVerified
		s.outPassage.reset(&s.outDigest, &s.link.gate, &a.entry.Gate, &a.region.Gate)
	}
	s.out = appendData(s.out, a.transfer, a.bytes.bytes, flags)
	err := s.stream.send(s.out, &a.bytes, &s.outPassage)
	s.out = s.out[:0]
	return err
}
