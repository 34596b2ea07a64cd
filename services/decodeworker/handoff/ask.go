package handoff

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// triesMax is how many prefill workers are asked for one prompt.
const triesMax = 3

// Bounds of the calls that tell a prefill worker something.
const (
	releaseWithin = 2 * time.Second
	cancelWithin  = time.Second
	cancelsAtOnce = 16
)

// errNoWorker is why a prompt is computed here that should have gone elsewhere.
var errNoWorker = errors.New("no prefill worker lives that can be asked")

// errClosing is why no call begins any more.
var errClosing = errors.New("the hand-offs have ended")

// try is one prefill worker's try at a transfer.
type try struct {
	c       *Coordinator
	t       *transfer
	peer    nixl.PeerID
	target  *instancev1.Instance
	client  prefillworkerv1.PrefillWorkerClient
	attempt block.AttemptID
	asked   bool // it was given the prompt

	ctx    context.Context // of the call; ends with the peer
	cancel context.CancelCauseFunc
	why    string // for the cancel
}

// asks says that prefill workers are called, rather than that they take jobs.
func (c *Coordinator) asks() bool {
	return c.deps.Style == worker.Pull || c.deps.Style == worker.Rendezvous
}

// ask has the prompt computed by a prefill worker of this worker's choice, or by the next
// one if that comes to nothing.
func (c *Coordinator) ask(ctx context.Context, t *transfer) (First, Cause, error) {
	var tried []nixl.PeerID
	cause, err := CauseNoWorker, errNoWorker
	for len(tried) < triesMax {
		target := c.choose(t.sequence.GetPrefillHint(), tried)
		if target == nil {
			break
		}
		tried = append(tried, peerOf(target))
		first, why, failed := c.tryOne(ctx, t, target)
		c.countTry(why)
		c.judge(ctx, peerOf(target), why)
		if failed == nil {
			return first, "", nil
		}
		cause, err = why, fmt.Errorf("%s: %w", peerOf(target), failed)
		if ctx.Err() != nil {
			return First{}, CauseDeadline, err
		}
		if why == CauseCrash {
			return First{}, why, failed
		}
		c.log.InfoContext(ctx, "a prefill worker did not do it", "transfer_id", t.id, "peer", peerOf(target).String(), "cause", cause, "error", failed)
	}
	return First{}, cause, err
}

func (c *Coordinator) tryOne(ctx context.Context, t *transfer, target *instancev1.Instance) (First, Cause, error) {
	client, err := c.deps.Client(target.GetAddress())
	if err != nil {
		return First{}, CauseUnreachable, err
	}
	x := &try{c: c, t: t, peer: peerOf(target), target: target, client: client}
	first, cause, err := x.perform(ctx)
	if err != nil && x.asked && cause != CauseNoCredit && c.crashed(ctx, target.GetAddress()) {
		return First{}, CauseCrash, &Crash{Peer: x.peer, Err: err}
	}
	return first, cause, err
}

func (x *try) perform(ctx context.Context) (First, Cause, error) {
	if x.c.deps.Style != worker.Pull {
		return x.meet(ctx)
	}
	if err := x.begin(ctx); err != nil {
		return First{}, CausePrefill, err
	}
	defer x.end()
	return x.pull()
}

// begin makes a try known, so that it ends with its peer.
func (x *try) begin(ctx context.Context) error {
	c := x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return errClosing
	}
	x.t.tries++
	x.attempt = block.AttemptID(fmt.Sprintf("%s#%d", x.t.id, x.t.tries))
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	c.tries[x] = struct{}{}
	s := c.standing(x.peer)
	s.inFlight++
	s.credits--
	return nil
}

func (x *try) end() {
	x.cancel(nil)
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	delete(x.c.tries, x)
	x.c.standing(x.peer).inFlight--
}

// endTries ends the calls of a prefill worker that is gone.
func (c *Coordinator) endTries(peer nixl.PeerID, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.tries {
		if x.peer == peer {
			x.cancel(cause)
		}
	}
}

// endCalls ends all calls once ctx has ended, and waits for them.
func (c *Coordinator) endCalls(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	c.closing = true
	for x := range c.tries {
		x.cancel(errClosing)
	}
	c.mu.Unlock()
	c.calls.Wait()
	return nil
}

// prefill calls the prefill worker. Without a ticket it is to hold what it computes.
func (x *try) prefill(ticket *transferv1.Ticket) (*prefillworkerv1.PrefillResponse, Cause, error) {
	c, self := x.c, x.c.deps.Worker.ID()
	ctx, span := c.tracer.Start(x.ctx, "decodeworker.ask")
	defer span.End()
	span.SetAttributes(attribute.String("prefill_worker", x.peer.Name), attribute.String("attempt_id", string(x.attempt)))
	r := &prefillworkerv1.PrefillRequest{
		TransferId: string(x.t.id), AttemptId: string(x.attempt), Sequence: x.t.sequence,
		PrefillIncarnation: x.peer.Incarnation, DecodeWorker: self.Name, DecodeIncarnation: self.Incarnation,
		KvFormat: c.deps.Worker.Card().KVFormat, Ticket: ticket,
	}
	if ticket == nil {
		r.FirstPosition = x.t.job.GetCachedTokens()
	}
	a, err := x.client.Prefill(ctx, r)
	switch code := rpc.Code(err); {
	case err == nil:
		c.said(x.peer, int(a.GetCredits()))
		return a, "", nil
	case code == codes.ResourceExhausted:
		c.said(x.peer, 0)
		return nil, CauseNoCredit, err
	case code == codes.Unavailable, rpc.Reason(err) == worker.ReasonUnreachable:
		return nil, CauseUnreachable, x.because(err)
	}
	return nil, CausePrefill, x.because(err)
}

// because prefers the reason why the call was ended to what that led to.
func (x *try) because(err error) error {
	if cause := context.Cause(x.ctx); cause != nil {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// cancelSoon tells the prefill worker that nobody wants what it may have for this try.
func (c *Coordinator) cancelSoon(x *try, why error) {
	x.why = why.Error()
	select {
	case c.cancels <- x:
	default:
	}
}

// cancelLoop tells prefill workers, a few at once so that one that is frozen holds up no other.
func (c *Coordinator) cancelLoop(ctx context.Context) error {
	var telling sync.WaitGroup
	defer telling.Wait()
	slots := make(chan struct{}, cancelsAtOnce)
	for {
		select {
		case <-ctx.Done():
			return nil
		case x := <-c.cancels:
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			telling.Go(func() {
				defer func() { <-slots }()
				x.tellCancel(ctx)
			})
		}
	}
}

func (x *try) tellCancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cancelWithin)
	defer cancel()
	_, err := x.client.Cancel(ctx, &prefillworkerv1.CancelRequest{
		TransferId: string(x.t.id), AttemptId: string(x.attempt), PrefillIncarnation: x.peer.Incarnation, Reason: x.why,
	})
	if err != nil && rpc.Code(err) != codes.FailedPrecondition { // that is another life of it
		x.c.log.Info("a cancel was not heard; what the prefill worker holds ends with its lease", "peer", x.peer.String(),
			"transfer_id", x.t.id, "error", err)
	}
}
