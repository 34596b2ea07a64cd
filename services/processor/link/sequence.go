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
	asks    bool    // for log-probabilities
	waits   bool    // the submit is in the outbox; the stream's mutex guards this and the next two
	ends    bool    // the batch that is being delivered has its end
	last    []entry // that came with the end

	ready chan struct{} // something below changed

	mu        sync.Mutex // guards all below
	tokens    []sequence.Token
	probs     []*generationv1.LogProbs // one for each token, if it asks
	room      int                      // tokens that may still come
	cancelled bool
	tried     bool
	end       *decodeworkerv1.Ended
	err       error
}

// Taken is what has come of a sequence.
type Taken struct {
	Tokens []sequence.Token
	// LogProbs tells how likely the tokens were, one entry for each; nil unless the sequence
	// asks for it.
	LogProbs []*generationv1.LogProbs
	// End comes with the last tokens or alone.
	End *decodeworkerv1.Ended
}

// Take waits until tokens have come or the sequence has ended, and returns all tokens that
// wait. The queue goes on in buf's memory, so two slices serve a whole sequence. The error is
// that of ctx, a *BrokenError when the stream broke, or another when the worker broke the
// contract; tokens that came before it are returned first.
func (q *Sequence) Take(ctx context.Context, buf []sequence.Token) (Taken, error) {
	for {
		q.mu.Lock()
		if len(q.tokens) > 0 || q.end != nil || q.err != nil {
			got, err := Taken{q.tokens, q.probs, q.end}, q.err
			q.tokens, q.probs = buf[:0], nil
			if len(got.Tokens) > 0 {
				err = nil
			}
			q.mu.Unlock()
			return got, err
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return Taken{}, ctx.Err()
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
	q.tokens, q.probs = q.tokens[:0], nil
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

// entry is a token, and how likely it was if the worker tells it.
type entry struct {
	token sequence.Token
	probs *generationv1.LogProbs
}

// breach is what is wrong with one more entry; empty: nothing.
func (q *Sequence) breach(e entry) string {
	switch {
	case q.room == 0:
		return "more tokens than max_tokens"
	case !q.asks:
		return ""
	case e.probs == nil:
		return "a token without its log-probability"
	case len(e.probs.GetTopTokens()) != len(e.probs.GetTopLogprobs()):
		return "likeliest tokens and log-probabilities that differ in number"
	}
	return ""
}

// push queues a token. Unless it answers "", the worker sent what it must not, which ends the
// sequence.
func (q *Sequence) push(e entry) (breach string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queue(e)
}

func (q *Sequence) queue(e entry) (breach string) {
	if q.cancelled {
		return ""
	}
	if len(q.tokens) == 0 { // else it was told, and has not taken them yet
		q.signal() // whoever takes waits for mu
	}
	if breach = q.breach(e); breach != "" {
		q.err = fmt.Errorf("decode worker sent %s for sequence %d", breach, q.id)
		return breach
	}
	q.room--
	q.tokens = append(q.tokens, e.token)
	if q.asks {
		q.probs = append(q.probs, e.probs)
	}
	return ""
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
	for _, e := range q.last {
		if q.queue(e) != "" {
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
