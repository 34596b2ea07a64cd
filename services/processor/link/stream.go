package link

import (
	"context"
	"fmt"
	"sync"

	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
)

// stream is one life of the connection: what waits to be sent, and who receives.
type stream struct {
	wake chan struct{} // the outbox is not empty
	stop func()        // ends the stream

	mu sync.Mutex // guards all below; taken before a sequence's
	// The outbox needs no bound of its own: each live sequence adds a submit, at most one
	// proceed, and a cancel.
	outbox    []outgoing
	sequences map[uint32]*Sequence
	last      uint32
	draining  bool
}

// outgoing is a message to send; sequence is set on a submit, which may still become a void.
type outgoing struct {
	message  *decodeworkerv1.AttachRequest
	sequence *Sequence
}

func newStream(stop func()) *stream {
	return &stream{wake: make(chan struct{}, 1), stop: stop, sequences: map[uint32]*Sequence{}}
}

// drain ends the stream once it has no sequences.
func (s *stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.stopIfDrained()
}

func (s *stream) stopIfDrained() {
	if s.draining && len(s.sequences) == 0 {
		s.stop()
	}
}

func (s *stream) forget(id uint32) {
	delete(s.sequences, id)
	s.stopIfDrained()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sender is the sending half of the client's stream.
type sender interface {
	Send(*decodeworkerv1.AttachRequest) error
}

// send empties the outbox until ctx ends or the stream breaks; the reader learns why.
func (s *stream) send(ctx context.Context, to sender) {
	var batch []outgoing
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		batch, s.outbox = s.outbox, batch[:0]
		for _, o := range batch {
			if o.sequence != nil {
				o.sequence.waits = false
			}
		}
		s.mu.Unlock()
		for _, o := range batch {
			if to.Send(o.message) != nil {
				return
			}
		}
		clear(batch) // the messages are not kept alive
	}
}

func (s *stream) submit(sub Submission) *Sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &Sequence{stream: s, id: s.nextID(), booking: sub.Booking, waits: true, ready: make(chan struct{}, 1)}
	q.room = max(0, int(sub.Sequence.GetMaxTokens())-len(sub.Sequence.GetGenerated()))
	q.asks = sub.Sequence.Logprobs != nil
	s.sequences[q.id] = q
	s.outbox = append(s.outbox, outgoing{sequence: q, message: &decodeworkerv1.AttachRequest{
		Message: &decodeworkerv1.AttachRequest_Submit{Submit: &decodeworkerv1.Submit{
			Booking: sub.Booking, SequenceId: q.id, Sequence: sub.Sequence, TraceContext: sub.TraceContext,
		}},
	}})
	s.signal()
	return q
}

// nextID counts round; an id in use is not given again.
func (s *stream) nextID() uint32 {
	for {
		s.last++
		if _, used := s.sequences[s.last]; !used {
			return s.last
		}
	}
}

// cancel asks the worker to end q, or turns its submit into a void when that was not sent
// yet and then returns true.
func (s *stream) cancel(q *Sequence, reason string) (void bool) {
	if q.waits {
		for i := range s.outbox {
			if s.outbox[i].sequence == q {
				s.outbox[i] = outgoing{message: &decodeworkerv1.AttachRequest{
					Message: &decodeworkerv1.AttachRequest_Void{Void: &decodeworkerv1.Void{Booking: q.booking}},
				}}
			}
		}
		s.forget(q.id)
		return true
	}
	s.outbox = append(s.outbox, outgoing{message: &decodeworkerv1.AttachRequest{
		Message: &decodeworkerv1.AttachRequest_Cancel{Cancel: &decodeworkerv1.Cancel{SequenceId: q.id, Reason: reason}},
	}})
	s.signal()
	return false
}

// deliver hands out a batch. Entries of sequences that nobody awaits any more are dropped.
func (s *stream) deliver(b *decodeworkerv1.StepBatch) error {
	ids, tokens := b.GetSequenceIds(), b.GetTokens()
	if len(ids) != len(tokens) {
		return fmt.Errorf("step batch has %d sequence ids for %d tokens", len(ids), len(tokens))
	}
	probs := b.GetLogprobs()
	if err := checkEntries(probs, len(tokens)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range b.GetEnded() {
		if q := s.sequences[e.GetSequenceId()]; q != nil {
			q.ends = true
		}
	}
	for i, id := range ids {
		e := entry{token: tokens[i]}
		if len(probs) > 0 && probs[0].GetEntry() == uint32(i) {
			e.probs, probs = probs[0].GetLogprobs(), probs[1:]
		}
		q := s.sequences[id]
		if q == nil {
			continue
		}
		if q.ends {
			q.last = append(q.last, e)
			continue
		}
		if breach := q.push(e); breach != "" {
			s.cancel(q, breach)
			s.forget(id)
		}
	}
	for _, id := range b.GetTrials() {
		if q := s.sequences[id]; q != nil && q.try() {
			s.outbox = append(s.outbox, outgoing{message: &decodeworkerv1.AttachRequest{
				Message: &decodeworkerv1.AttachRequest_Proceed{Proceed: &decodeworkerv1.Proceed{SequenceId: id}},
			}})
			s.signal()
		}
	}
	for _, e := range b.GetEnded() {
		if q := s.sequences[e.GetSequenceId()]; q != nil {
			s.forget(q.id)
			q.finish(e)
		}
	}
	return nil
}

// checkEntries says whether log-probabilities belong to entries of a batch, in its order.
func checkEntries(all []*decodeworkerv1.EntryLogProbs, entries int) error {
	for i, p := range all {
		if int(p.GetEntry()) >= entries || i > 0 && p.GetEntry() <= all[i-1].GetEntry() {
			return fmt.Errorf("step batch has log-probabilities for entry %d after %d others, of %d entries", p.GetEntry(), i, entries)
		}
	}
	return nil
}

// fail ends all sequences.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.sequences {
		q.fail(err)
	}
	clear(s.sequences)
	s.outbox = nil
}
