package handoff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// errLost is why a call ends whose ticket was lost.
var errLost = errors.New("the ticket was lost")

// meet claims the transfer on behalf of a prefill worker and calls it with the ticket. What
// commits it is the completion note, which comes before the call's answer.
func (x *try) meet(ctx context.Context) (First, Cause, error) {
	c, t := x.c, x.t
	// The call outlives the commit: its answer tells the worker's credits.
	if err := x.begin(context.WithoutCancel(ctx)); err != nil {
		return First{}, CausePrefill, err
	}
	ticket, err := x.claim(ctx)
	if err != nil {
		x.end()
		return First{}, CauseBlocks, err
	}
	answered := x.call(ctx, ticket)
	for {
		select {
		case first := <-t.done:
			return first, "", nil
		case a := <-answered:
			select {
			case first := <-t.done:
				return first, "", nil
			default:
			}
			if a.refused { // its word that nothing was written
				c.quiet(t.id, x.attempt)
			} else {
				x.lose()
			}
			return First{}, a.cause, a.err
		case <-t.lost:
			// If it was not that of an earlier try, the call ends, by what is known of why.
			if c.pool.Renew(t.id, x.attempt, time.Now().Add(c.cfg.Lease)) != nil {
				x.cancel(errLost)
			}
		case <-ctx.Done():
			x.cancel(ctx.Err())
			return First{}, CauseDeadline, ctx.Err()
		}
	}
}

// met is the answer of a call with a ticket.
type met struct {
	cause   Cause
	err     error
	refused bool
}

// call calls the prefill worker beside the wait for its note.
func (x *try) call(ctx context.Context, ticket *transferv1.Ticket) <-chan met {
	answered := make(chan met, 1)
	x.asked = true
	x.c.calls.Go(func() {
		defer x.end()
		var stop context.CancelFunc
		if deadline, ok := ctx.Deadline(); ok {
			x.ctx, stop = context.WithDeadline(x.ctx, deadline.Add(x.c.cfg.Lease))
			defer stop()
		}
		_, cause, err := x.prefill(ticket)
		refused := rpc.Code(err) == codes.ResourceExhausted || rpc.Reason(err) == worker.ReasonUnreachable
		if err == nil {
			cause, err = CausePrefill, errors.New("its note did not count")
		}
		answered <- met{cause, err, refused}
	})
	return answered
}

// gaveUp ends the call of a prefill worker that has given its ticket back.
func (c *Coordinator) gaveUp(id block.TransferID, attempt block.AttemptID, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.tries {
		if x.t.id == id && x.attempt == attempt {
			x.cancel(fmt.Errorf("it gave the ticket back: %s", reason))
		}
	}
}

// claim claims the transfer for the prefill worker and makes its ticket ready.
func (x *try) claim(ctx context.Context) (*transferv1.Ticket, error) {
	c, t := x.c, x.t
	_, span := c.tracer.Start(ctx, "decodeworker.claim")
	defer span.End()
	c.moving.RLock() // so that the ticket's epoch is that of its blocks; before the claim's lock, as everywhere
	defer c.moving.RUnlock()
	t.claim.Lock()
	defer t.claim.Unlock()
	if !c.remember(x.peer, x.target.GetAddress()) {
		return nil, block.ErrFenced
	}
	now := time.Now()
	ticket, err := c.pool.Claim(t.id, block.Claim{
		Attempt: x.attempt, Writer: writerID(x.peer), Now: now, Expiry: now.Add(c.cfg.Lease),
	})
	c.countClaim(err, false)
	if err != nil {
		return nil, err
	}
	if err := c.allow(x.peer, ticket); err != nil {
		c.quiet(t.id, x.attempt) // it was not told of the ticket
		return nil, fmt.Errorf("allow the writes of ticket %d: %w", ticket.Number, err)
	}
	return c.grant(t, ticket, now, false).GetTicket(), nil
}

// lose takes the ticket back, whose writer is in doubt unless it gave its word.
func (x *try) lose() {
	if _, live := x.c.pool.Abort(x.t.id, x.attempt); live {
		x.c.hold(x.t.id, false)
		x.c.sweepSoon()
	}
}
