package link

import (
	"context"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// Sequence is one generation on a stream. Take is for one goroutine; Cancel and Close for any.
type Sequence struct {
	stream  *stream
	id      uint32
	booking uint64
	waits   bool             // the submit is in the outbox; the stream's mutex guards this and the next two
	ends    bool             // the batch that is being delivered has its end
	last    []sequence.Token // that came with the end

	ready chan struct{} // something below changed

	mu        sync.Mutex // guards all below
	tokens    []sequence.Token
	room      int // tokens that may still come
	cancelled bool
	tried     bool
	end       *decodeworkerv1.Ended
	err       error
}

// Take waits until tokens have come or the sequence has ended, and returns all tokens that
// wait. The queue goes on in buf's memory, so two slices serve a whole sequence. end comes
// with the last tokens or alone. The error is that of ctx, a *BrokenError when the stream
// broke, or another when the worker broke the contract; tokens that came before it are
// returned first.
func (q *Sequence) Take(ctx context.Context, buf []sequence.Token) (tokens []sequence.Token, end *decodeworkerv1.Ended, err error) {
	for {
		q.mu.Lock()
		if len(q.tokens) > 0 || q.end != nil || q.err != nil {
			tokens, q.tokens = q.tokens, buf[:0]
			end, err = q.end, q.err
			if len(tokens) > 0 {
				err = nil
			}
			q.mu.Unlock()
			return tokens, end, err
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-q.ready:
		}
	}
}

// Cancel tells the worker to end the sequence. Take gives no further tokens, but the end,
// when it comes, with the counts that it carries. Cancel says whether the sequence had not
// been sent at all: then the booking goes out as a void, and Take returns an end at once.
// After the sequence's end it does nothing.
func (q *Sequence) Cancel(reason string) (void bool) {
	q.stream.mu.Lock()
	defer q.stream.mu.Unlock()
	return q.cancel(reason)
}

func (q *Sequence) cancel(reason string) (void bool) {
	q.mu.Lock()
	over := q.cancelled || q.end != nil || q.err != nil
	q.cancelled = true
	q.tokens = q.tokens[:0]
	q.mu.Unlock()
	if over {
		return false
	}
	if void = q.stream.cancel(q, reason); void {
		q.finish(&decodeworkerv1.Ended{SequenceId: q.id, Reason: generationv1.FinishReason_FINISH_REASON_CANCELLED})
	}
	return void
}

// Close cancels the sequence unless it has ended, and forgets it. It must be called.
func (q *Sequence) Close(reason string) (void bool) {
	q.stream.mu.Lock()
	defer q.stream.mu.Unlock()
	void = q.cancel(reason)
	q.stream.forget(q.id)
	return void
}

// push queues a token; false means that the worker sent more than it was allowed to, which
// ends the sequence.
func (q *Sequence) push(t sequence.Token) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queue(t)
}

func (q *Sequence) queue(t sequence.Token) bool {
	if q.cancelled {
		return true
	}
	if q.room--; q.room < 0 {
		q.err = fmt.Errorf("decode worker sent more tokens than max_tokens of sequence %d", q.id)
		q.signal()
		return false
	}
	q.tokens = append(q.tokens, t)
	q.signal()
	return true
}

// Tried says whether the worker has announced that it computes the sequence on trial.
func (q *Sequence) Tried() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tried
}

// try notes that announcement; false if it had come before.
func (q *Sequence) try() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := !q.tried
	q.tried = true
	return first
}

// finish queues the last tokens and the end at once: whoever takes the one has the other, too.
func (q *Sequence) finish(e *decodeworkerv1.Ended) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.last {
		if !q.queue(t) {
			return
		}
	}
	q.end = e
	q.signal()
}

func (q *Sequence) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = err
	q.signal()
}

func (q *Sequence) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
