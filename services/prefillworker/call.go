package prefillworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// Why the work on a call ended before its end.
var (
	errCancelled = errors.New("the decode worker cancelled the call")
	errLeft      = errors.New("nobody waits for the answer any more")
	errDraining  = errors.New("the drain time is over")
)

// reachEvery is how often a decode worker is looked for that has called and is not known yet.
const reachEvery = 20 * time.Millisecond

// errRefused marks what the scheduler did not take up.
var errRefused = errors.New("refused")

// Prefill implements prefillworkerv1.PrefillWorkerServer.
func (p *PrefillWorker) Prefill(ctx context.Context, r *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
	if err := p.suits(r); err != nil {
		return nil, err
	}
	ctx = telemetry.WithRequestID(ctx, r.GetSequence().GetRequestId())
	c, begun, err := p.enter(ctx, r)
	if err != nil {
		return nil, err
	}
	if begun {
		go p.carryOut(c, r) // the drain waits for it
	}
	return p.await(ctx, c)
}

// suits says why a request can never be done here.
func (p *PrefillWorker) suits(r *prefillworkerv1.PrefillRequest) error {
	style, card, layout := p.cfg.Engine.Style, p.deps.Worker.Card(), p.deps.Worker.Layout()
	if style == worker.Push {
		return errStyle()
	}
	if err := p.meant(r.GetPrefillIncarnation()); err != nil {
		return err
	}
	if f := r.GetKvFormat(); f != card.KVFormat {
		return rpc.FailedPrecondition("kv_format", fmt.Sprintf("kv_format is %q, this worker's is %q", f, card.KVFormat))
	}
	if withTicket := r.GetTicket() != nil; withTicket != (style == worker.Rendezvous) {
		return rpc.FailedPrecondition("style", fmt.Sprintf("ticket is set: %v; this worker's style is %s", withTicket, style))
	}
	spec := worker.Spec(r.GetSequence())
	switch first := int(r.GetFirstPosition()); {
	case r.GetTransferId() == "" || r.GetAttemptId() == "":
		return rpc.InvalidArgument("attempt_id", "transfer_id and attempt_id are required")
	case len(spec.Prompt) == 0:
		return rpc.InvalidArgument("sequence", "has no prompt")
	case first >= spec.Len() || first%layout.BlockTokens != 0:
		return rpc.InvalidArgument("first_position", fmt.Sprintf("is %d, want whole blocks of %d tokens before the last of %d tokens",
			first, layout.BlockTokens, spec.Len()))
	}
	return nil
}

// meant says whether this life of the worker is.
func (p *PrefillWorker) meant(incarnation string) error {
	if self := p.deps.Worker.ID(); incarnation != self.Incarnation {
		return rpc.FailedPrecondition("incarnation", fmt.Sprintf("prefill_incarnation is %q, this is %s", incarnation, self))
	}
	return nil
}

// carryOut does what a call asks for.
func (p *PrefillWorker) carryOut(c *call, r *prefillworkerv1.PrefillRequest) {
	ctx, span := p.tracer.Start(c.ctx, "prefillworker.call")
	defer span.End()
	c.ctx = ctx
	span.SetAttributes(attribute.String("transfer_id", c.key.transfer), attribute.String("decode_worker", c.decode.Name))
	var (
		answer *prefillworkerv1.PrefillResponse
		h      *hold
		err    error
	)
	if p.cfg.Engine.Style == worker.Pull {
		answer, h, err = p.prompt(c, r)
		p.finish(c.attempt)
	} else {
		answer, err = &prefillworkerv1.PrefillResponse{}, p.meet(c, r)
	}
	if err != nil && !errors.Is(err, errDone) && context.Cause(ctx) == nil {
		p.log.WarnContext(ctx, "a prompt that was asked for could not be computed", "transfer_id", c.key.transfer, "error", err)
	}
	p.conclude(c, answer, h, callError(err))
}

func unmet(err error) bool {
	u := (*unreachable)(nil)
	return errors.As(err, &u)
}

// callError is what a caller is told. Only what was refused before anything was begun may
// look like a refusal: to the caller that is the word that nothing was written.
func callError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, scheduler.ErrBusy):
		return rpc.ResourceExhausted("too many sequences wait on this worker", 0)
	case errors.Is(err, scheduler.ErrClosed):
		return rpc.Unavailable("the worker is stopping")
	case unmet(err):
		return rpc.FailedPrecondition(worker.ReasonUnreachable, err.Error())
	case errors.Is(err, errRefused), errors.Is(err, block.ErrTooLarge):
		return rpc.InvalidArgument("sequence", err.Error())
	}
	return status.Error(codes.Aborted, err.Error())
}

// prompt computes a prompt and lets the caller read it.
func (p *PrefillWorker) prompt(c *call, r *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, *hold, error) {
	t := &task{p: p, a: c.attempt, spec: worker.Spec(r.GetSequence()), begun: time.Now()}
	first := &result{done: make(chan struct{})}
	err := t.admit(first)
	at := t.lap(&t.admitting, t.begun)
	if err == nil {
		err = t.compute(first)
	}
	t.lap(&t.computing, at)
	if err == nil {
		err = context.Cause(c.ctx)
	}
	var h *hold
	if err == nil {
		h, err = p.offer(c, t, int(r.GetFirstPosition()))
	}
	if err != nil {
		if t.q != nil {
			t.q.Release()
		}
		return nil, nil, err
	}
	return t.answer(first, h), h, nil
}

// meet does what the ticket of a call is for, as for a job of the queue.
func (p *PrefillWorker) meet(c *call, r *prefillworkerv1.PrefillRequest) error {
	job := &transferv1.RemotePrefillRequest{
		TransferId: r.GetTransferId(), Sequence: r.GetSequence(),
		DecodeWorker: r.GetDecodeWorker(), DecodeIncarnation: r.GetDecodeIncarnation(),
	}
	target, decode, err := p.reachSoon(c.ctx, job)
	if err == nil {
		if err = p.confirm(c.attempt, decode); err == nil {
			err = p.serve(c.attempt, decode, target, job, r.GetTicket())
		}
	}
	// What is answered unreachable needs no word, which might overtake the answer.
	if quiet := p.finish(c.attempt); quiet && err != nil && decode != nil && !errors.Is(err, errDone) && !unmet(err) {
		p.abandon(c.attempt, decode, err)
	}
	return err
}

// reachSoon is reach for a decode worker that has just called: one that is not known here
// yet will be, and there is no queue for the job to wait in.
func (p *PrefillWorker) reachSoon(ctx context.Context, job *transferv1.RemotePrefillRequest) (*instancev1.Instance, decodeworkerv1.DecodeWorkerClient, error) {
	ctx, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	ticker := time.NewTicker(reachEvery)
	defer ticker.Stop()
	for {
		target, decode, err := p.reach(job)
		if notYet := (*later)(nil); !errors.As(err, &notYet) {
			return target, decode, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, err
		case <-ticker.C:
		}
	}
}

// Cancel implements prefillworkerv1.PrefillWorkerServer.
func (p *PrefillWorker) Cancel(ctx context.Context, r *prefillworkerv1.CancelRequest) (*prefillworkerv1.CancelResponse, error) {
	if p.cfg.Engine.Style == worker.Push {
		return nil, errStyle()
	}
	if err := p.meant(r.GetPrefillIncarnation()); err != nil {
		return nil, err
	}
	key := attemptKey{r.GetTransferId(), r.GetAttemptId()}
	if c := p.calls.find(key); c != nil {
		p.log.InfoContext(ctx, "a decode worker cancelled a prompt", "transfer_id", key.transfer, "reason", r.GetReason())
		p.drop(c, errCancelled)
	} else {
		p.calls.bar(key)
	}
	return &prefillworkerv1.CancelResponse{}, nil
}

// Release implements prefillworkerv1.PrefillWorkerServer.
func (p *PrefillWorker) Release(_ context.Context, r *prefillworkerv1.ReleaseRequest) (*prefillworkerv1.ReleaseResponse, error) {
	if p.cfg.Engine.Style != worker.Pull {
		return nil, errStyle()
	}
	if err := p.meant(r.GetPrefillIncarnation()); err != nil {
		return nil, err
	}
	outcome := prefillworkerv1.ReleaseOutcome_RELEASE_OUTCOME_OK
	if !p.release(attemptKey{r.GetTransferId(), r.GetAttemptId()}) {
		outcome = prefillworkerv1.ReleaseOutcome_RELEASE_OUTCOME_STALE
	}
	return &prefillworkerv1.ReleaseResponse{Outcome: outcome}, nil
}

// decodePeer is the agent that a call is for.
func decodePeer(r *prefillworkerv1.PrefillRequest) nixl.PeerID {
	return nixl.PeerID{Name: r.GetDecodeWorker(), Incarnation: r.GetDecodeIncarnation()}
}
