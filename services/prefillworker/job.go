package prefillworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// claimWithin bounds the wait for a decode worker's answer to a claim, so that one that is
// frozen does not take the slot from the others' jobs.
const claimWithin = 2 * time.Second

// retryAfter is when a job comes back that met a passing fault.
const retryAfter = 200 * time.Millisecond

// errDone means that nobody waits for the job: it is acknowledged.
var errDone = errors.New("the transfer has ended")

// errNotNow means that the claim was answered LATER: this attempt never had a ticket.
var errNotNow = errors.New("claim: not now")

// later is the error of a job that should come back.
type later struct {
	delay time.Duration
	cause error
}

func (l *later) Error() string { return fmt.Sprintf("come back after %v: %v", l.delay, l.cause) }
func (l *later) Unwrap() error { return l.cause }

// work does one job and tells the queue what became of it.
func (p *PrefillWorker) work(ctx context.Context, job *prefillqueue.Job) {
	ctx, cancel := context.WithDeadline(ctx, job.Request.GetDeadline().AsTime())
	defer cancel()
	ctx = telemetry.WithRequestID(ctx, job.Request.GetSequence().GetRequestId())
	ctx, span := p.tracer.Start(ctx, "prefillworker.job")
	defer span.End()
	span.SetAttributes(attribute.String("transfer_id", job.Request.GetTransferId()),
		attribute.Int64("delivered", int64(job.Delivered)), attribute.Float64("queued_ms", float64(time.Since(job.Published))/1e6))
	p.tally(func(r *prefillworkerv1.JobReport) {
		r.Deliveries++
		if job.Delivered > 1 {
			r.Redeliveries++
		}
	})
	holding, release := context.WithCancel(ctx)
	held := make(chan error, 1)
	go func() { held <- job.Hold(holding) }()
	err := p.attempt(ctx, job.Request)
	release()
	<-held // a hold that was lost shows as a redelivery, and that one's claim decides
	p.settle(ctx, job, err)
}

// settle answers the queue.
func (p *PrefillWorker) settle(ctx context.Context, job *prefillqueue.Job, err error) {
	var back *later
	switch {
	case err == nil, errors.Is(err, errDone):
		err = job.Ack()
	// Not the error's deadline: a handshake that took too long is no reason to drop the job.
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		p.tally(func(r *prefillworkerv1.JobReport) { r.Expired++ })
		err = job.Ack()
	case errors.As(err, &back):
		p.log.InfoContext(ctx, "a job goes back to the queue", "transfer_id", job.Request.GetTransferId(), "error", err)
		err = job.Nak(back.delay)
	default:
		p.log.WarnContext(ctx, "a job failed", "transfer_id", job.Request.GetTransferId(), "error", err)
		p.tally(func(r *prefillworkerv1.JobReport) { r.Failed++ })
		err = job.Nak(retryAfter)
	}
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "the queue did not take the answer; the job may come again", "error", err)
	}
}

// attempt tries a job once, from the claim to the answer of its note.
func (p *PrefillWorker) attempt(ctx context.Context, r *transferv1.RemotePrefillRequest) error {
	target, decode, err := p.reach(r)
	if err != nil {
		return err
	}
	a := p.begin(ctx, r.GetTransferId())
	ticket, err := p.claim(a, decode, r)
	if err == nil {
		err = p.serve(a, decode, target, r, ticket)
	}
	if quiet := p.finish(a); quiet && err != nil && !errors.Is(err, errDone) && !errors.Is(err, errNotNow) {
		p.abandon(a, decode, err)
	}
	return err
}

// reach finds the decode worker that waits, and its server.
func (p *PrefillWorker) reach(r *transferv1.RemotePrefillRequest) (*instancev1.Instance, decodeworkerv1.DecodeWorkerClient, error) {
	target, err := p.target(r)
	if err != nil {
		return nil, nil, err
	}
	conn, err := p.deps.Connect(target.GetAddress())
	if err != nil {
		return nil, nil, &later{retryAfter, err}
	}
	return target, decodeworkerv1.NewDecodeWorkerClient(conn), nil
}

// target finds the decode worker that waits, in the life that the job names.
func (p *PrefillWorker) target(r *transferv1.RemotePrefillRequest) (*instancev1.Instance, error) {
	instance, known := p.deps.DecodeWorkers.Find(r.GetDecodeWorker())
	switch {
	case !known:
		return nil, &later{retryAfter, fmt.Errorf("%s is not among the members yet", r.GetDecodeWorker())}
	case instance == nil:
		return nil, &later{retryAfter, fmt.Errorf("%s is not among the members", r.GetDecodeWorker())}
	case instance.GetIncarnation() > r.GetDecodeIncarnation():
		return nil, fmt.Errorf("%s lives again: %w", r.GetDecodeWorker(), errDone)
	case instance.GetIncarnation() < r.GetDecodeIncarnation():
		return nil, &later{retryAfter, fmt.Errorf("%s is known in an older life", r.GetDecodeWorker())}
	}
	return instance, nil
}

// claim asks for the ticket.
func (p *PrefillWorker) claim(a *attempt, decode decodeworkerv1.DecodeWorkerClient, r *transferv1.RemotePrefillRequest) (*transferv1.Ticket, error) {
	ctx, span := p.tracer.Start(a.ctx, "prefillworker.claim")
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	self := p.deps.Worker.ID()
	answer, err := decode.ClaimPrefill(ctx, &decodeworkerv1.ClaimPrefillRequest{
		TransferId: a.key.transfer, AttemptId: a.key.attempt, DecodeIncarnation: r.GetDecodeIncarnation(),
		PrefillWorker: self.Name, PrefillIncarnation: self.Incarnation, PrefillAddress: p.deps.Instance.GetAddress(),
		Transport: p.cfg.Transport, WantSequence: r.GetSequence() == nil,
	})
	switch {
	case rpc.Code(err) == codes.FailedPrecondition:
		return nil, fmt.Errorf("claim: %v: %w", err, errDone)
	case err != nil:
		return nil, p.ended(a, &later{retryAfter, fmt.Errorf("claim: %w", err)})
	case answer.GetLater() != nil:
		p.tally(func(r *prefillworkerv1.JobReport) { r.ClaimsLater++ })
		return nil, &later{answer.GetLater().AsDuration(), errNotNow}
	case answer.GetTicket() == nil:
		p.tally(func(r *prefillworkerv1.JobReport) { r.ClaimsGone++ })
		return nil, fmt.Errorf("claim: %w", errDone)
	}
	p.tally(func(r *prefillworkerv1.JobReport) { r.ClaimsGranted++ })
	return answer.GetTicket(), nil
}

// confirm asks the decode worker whether an attempt of its choice still has its ticket. An
// abort of it may have come before the attempt was known here; its ticket had ended by then.
func (p *PrefillWorker) confirm(a *attempt, decode decodeworkerv1.DecodeWorkerClient) error {
	ctx, span := p.tracer.Start(a.ctx, "prefillworker.confirm")
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	_, err := decode.RenewClaim(ctx, &decodeworkerv1.RenewClaimRequest{TransferId: a.key.transfer, AttemptId: a.key.attempt})
	switch {
	case rpc.Code(err) == codes.NotFound:
		return fmt.Errorf("confirm: %w", errDone)
	case err != nil:
		return p.ended(a, &later{retryAfter, fmt.Errorf("confirm: %w", err)})
	}
	return nil
}

// abandon gives the decode worker this worker's word that the attempt is quiet.
func (p *PrefillWorker) abandon(a *attempt, decode decodeworkerv1.DecodeWorkerClient, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), time.Second)
	defer cancel()
	_, err := decode.AbandonClaim(ctx, &decodeworkerv1.AbandonClaimRequest{
		TransferId: a.key.transfer, AttemptId: a.key.attempt, Reason: cause.Error(),
	})
	if err != nil {
		p.log.WarnContext(ctx, "a claim could not be given back; its lease will end", "transfer_id", a.key.transfer, "error", err)
	}
}

// ended prefers the reason why an attempt was ended to what that led to.
func (p *PrefillWorker) ended(a *attempt, err error) error {
	cause := context.Cause(a.ctx)
	switch {
	case errors.Is(cause, errAborted):
		p.tally(func(r *prefillworkerv1.JobReport) { r.Aborted++ })
		return &later{0, cause}
	case errors.Is(cause, nixl.ErrGone):
		return &later{retryAfter, cause}
	case errors.Is(cause, nixl.ErrNotGranted): // the decode worker took the ticket back
		return &later{0, cause}
	case cause != nil:
		return cause
	}
	return err
}

// tally changes the counters.
func (p *PrefillWorker) tally(change func(*prefillworkerv1.JobReport)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p.report)
}

func (p *PrefillWorker) jobReport() *prefillworkerv1.JobReport {
	p.calls.mu.Lock()
	held, peak := p.calls.blocks, p.calls.peak
	p.calls.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := proto.CloneOf(p.report)
	r.HeldBlocks, r.HeldBlocksHighWater = uint32(held), uint32(peak)
	return r
}
