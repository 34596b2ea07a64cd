package prefillworker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// errAborted is why an attempt's context ended when its decode worker asked for quiet.
var errAborted = errors.New("the decode worker aborted the attempt")

// attemptKey names an attempt. Each is used once: a number that was ended is never taken again.
type attemptKey struct{ transfer, attempt string }

// ticketKey names a ticket at its decode worker.
type ticketKey struct {
	peer   nixl.PeerID
	ticket uint64
}

// attempt is one try at a job. It is known from before its claim until after its last
// write, so that an abort finds it in time or finds it quiet.
type attempt struct {
	key    attemptKey
	ctx    context.Context // ends with the attempt
	cancel context.CancelCauseFunc
	answer chan transferv1.NoteOutcome // capacity 1
	noted  atomic.Bool                 // its note is out

	mu      sync.Mutex
	over    bool          // it will never write again, once writing is done
	writing chan struct{} // not nil while it writes; closed after its last byte
}

// startWriting asks for leave to write, as often as it likes; false once the attempt is over.
func (a *attempt) startWriting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	if a.writing == nil {
		a.writing = make(chan struct{})
	}
	return true
}

// stopWriting says that the last byte has landed, or never will.
func (a *attempt) stopWriting() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writing != nil {
		close(a.writing)
		a.writing = nil
	}
}

// end ends the attempt for good. The channel closes once it is quiet; nil: it is already.
func (a *attempt) end(cause error) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.cancel(cause)
	return a.writing
}

// begin makes an attempt of this worker's own choice known.
func (p *PrefillWorker) begin(ctx context.Context, transfer string) *attempt {
	p.mu.Lock()
	p.count++
	n := p.count
	p.mu.Unlock()
	return p.beginAs(ctx, attemptKey{transfer, fmt.Sprintf("%s/%d", p.deps.Worker.ID(), n)})
}

// beginAs makes an attempt known.
func (p *PrefillWorker) beginAs(ctx context.Context, key attemptKey) *attempt {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &attempt{key: key, ctx: ctx, cancel: cancel, answer: make(chan transferv1.NoteOutcome, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts[key] = a
	return a
}

// finish ends an attempt and, if it is quiet, forgets it.
func (p *PrefillWorker) finish(a *attempt) (quiet bool) {
	if a.end(nil) != nil {
		return false
	}
	p.mu.Lock()
	delete(p.attempts, a.key)
	p.mu.Unlock()
	return true
}

// Abort implements prefillworkerv1.PrefillWorkerServer. An attempt that is not known has
// ended, and its grant will never be used: numbers of this worker's choice are not used
// again, and one that a decode worker chose is confirmed there before the first byte.
func (p *PrefillWorker) Abort(ctx context.Context, r *prefillworkerv1.AbortRequest) (*prefillworkerv1.AbortResponse, error) {
	if err := p.meant(r.GetPrefillIncarnation()); err != nil {
		return nil, err
	}
	p.mu.Lock()
	a := p.attempts[attemptKey{r.GetTransferId(), r.GetAttemptId()}]
	p.mu.Unlock()
	if a == nil {
		return &prefillworkerv1.AbortResponse{}, nil
	}
	writing := a.end(errAborted)
	if writing == nil { // a computation may go on for a step; it is not written anywhere
		return &prefillworkerv1.AbortResponse{}, nil
	}
	select {
	case <-writing:
		return &prefillworkerv1.AbortResponse{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// expectAnswer makes the answers to a ticket's note find their attempt.
func (p *PrefillWorker) expectAnswer(k ticketKey, a *attempt) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tickets[k] = a
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.tickets, k)
	}
}
