package decodeworker

import (
	"sync"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
)

// outbox collects what the sequences of one caller produce until it is sent. The step
// loop only appends; it never waits for a caller that does not read. What can gather
// is bounded by the max_tokens of the caller's own sequences.
type outbox struct {
	wake chan struct{} // capacity 1: there is something

	mu    sync.Mutex
	batch *decodeworkerv1.StepBatch
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), batch: &decodeworkerv1.StepBatch{}}
}

// add makes an output for one sequence.
func (o *outbox) add(id uint32) output { return outboxEntry{o, id} }

// take empties the outbox; nil if there is nothing.
func (o *outbox) take() *decodeworkerv1.StepBatch {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.batch.Tokens) == 0 && len(o.batch.Ended) == 0 && len(o.batch.Trials) == 0 {
		return nil
	}
	full := o.batch
	o.batch = &decodeworkerv1.StepBatch{}
	return full
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// outboxEntry is one sequence's way into the outbox.
type outboxEntry struct {
	box *outbox
	id  uint32
}

func (e outboxEntry) Token(t sequence.Token, p *sequence.LogProbs) {
	told := worker.LogProbs(p)
	e.box.mu.Lock()
	b := e.box.batch
	if told != nil {
		b.Logprobs = append(b.Logprobs, &decodeworkerv1.EntryLogProbs{Entry: uint32(len(b.Tokens)), Logprobs: told})
	}
	b.SequenceIds = append(b.SequenceIds, e.id)
	b.Tokens = append(b.Tokens, t)
	e.box.mu.Unlock()
	e.box.signal()
}

func (e outboxEntry) Ended(m *decodeworkerv1.Ended) {
	m.SequenceId = e.id
	e.box.mu.Lock()
	e.box.batch.Ended = append(e.box.batch.Ended, m)
	e.box.mu.Unlock()
	e.box.signal()
}

// Trial implements output. A plain caller counts nothing.
func (outboxEntry) Trial() <-chan struct{} {
	proceed := make(chan struct{})
	close(proceed)
	return proceed
}

// trial asks for a Proceed.
func (o *outbox) trial(id uint32) {
	o.mu.Lock()
	o.batch.Trials = append(o.batch.Trials, id)
	o.mu.Unlock()
	o.signal()
}
