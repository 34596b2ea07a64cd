package prefillworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// answerWithin is how long the answer to a note may take before the note is sent again.
const answerWithin = 2 * time.Second

// task is a granted attempt at work.
type task struct {
	p      *PrefillWorker
	a      *attempt
	decode decodeworkerv1.DecodeWorkerClient
	peer   nixl.PeerID
	ticket *transferv1.Ticket
	spec   sequence.Spec

	q    *scheduler.Sequence
	out  *outlet
	own  int // prompt tokens found in this worker's cache
	read int // prompt tokens read from the decode worker

	begun                         time.Time
	admitting, computing, writing time.Duration // how long each took
}

// serve does what a ticket is for. When it returns, nothing of the attempt writes any more.
func (p *PrefillWorker) serve(a *attempt, decode decodeworkerv1.DecodeWorkerClient, target *instancev1.Instance, r *transferv1.RemotePrefillRequest, ticket *transferv1.Ticket) error {
	stop := p.renew(a, decode, ticket)
	defer stop()
	msg := r.GetSequence()
	if msg == nil {
		msg = ticket.GetSequence()
	}
	t := &task{p: p, a: a, decode: decode, ticket: ticket, spec: worker.Spec(msg)}
	if want := t.spec.Len(); want != int(ticket.GetEndPosition()) {
		return fmt.Errorf("the ticket ends at position %d, the prompt at %d", ticket.GetEndPosition(), want)
	}
	if err := t.meet(target); err != nil {
		return p.ended(a, err)
	}
	// From here on, so that the end of the decode worker ends the computation as well.
	defer p.expectAnswer(ticketKey{t.peer, ticket.GetNumber()}, a)()
	err := t.run()
	if t.q != nil {
		t.q.Release()
	}
	if err != nil {
		return p.ended(a, err)
	}
	return nil
}

// run computes, writes while it computes, and tells.
func (t *task) run() error {
	first := &result{done: make(chan struct{})}
	t.begun, t.out = time.Now(), t.newOutlet()
	if err := t.admit(first); err != nil {
		return err
	}
	written := t.startWriting()
	at := t.lap(&t.admitting, t.begun)
	err := t.compute(first)
	at = t.lap(&t.computing, at)
	if err != nil {
		t.a.cancel(err) // what is under way is of no use
	} else {
		t.out.allPlaced(t.spec.Len(), true)
	}
	if wrote := <-written; err == nil {
		err = wrote
	}
	t.lap(&t.writing, at)
	if err != nil {
		return err
	}
	return t.notify(first)
}

// lap measures what ended now.
func (t *task) lap(d *time.Duration, since time.Time) time.Time {
	now := time.Now()
	*d = now.Sub(since)
	return now
}

// startWriting begins to write what is in place already, and goes on as more comes. The
// attempt may not be given up for quiet before the channel answers.
func (t *task) startWriting() <-chan error {
	written := make(chan error, 1)
	t.out.allPlaced(t.q.Table().Len(), false)
	go func() {
		err := t.out.run(t.a.ctx)
		if err != nil {
			t.a.cancel(err) // nothing is computed for nobody
		}
		if len(t.out.unsettled) > 0 {
			t.p.linger(t.a, t.out.unsettled)
		} else {
			t.a.stopWriting()
		}
		written <- err
	}()
	return written
}

// renewAtLeast and renewAtMost bound the pause between renewals, since the clocks of two
// hosts may differ.
const renewAtLeast, renewAtMost = 10 * time.Millisecond, time.Second

// renew keeps the ticket's lease until the returned function is called; a lease that is
// lost ends the attempt.
func (p *PrefillWorker) renew(a *attempt, decode decodeworkerv1.DecodeWorkerClient, ticket *transferv1.Ticket) (stop func()) {
	every := min(max(time.Until(ticket.GetLeaseExpiry().AsTime())/3, renewAtLeast), renewAtMost)
	ctx, cancel := context.WithCancel(a.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			_, err := decode.RenewClaim(ctx, &decodeworkerv1.RenewClaimRequest{TransferId: a.key.transfer, AttemptId: a.key.attempt})
			if rpc.Code(err) != codes.NotFound {
				continue
			}
			// A commit ends the claim as well. Once the note is out, its answer says which it was.
			if !a.noted.Load() {
				a.cancel(&later{0, errors.New("the claim has ended")})
			}
			return
		}
	}()
	return func() { cancel(); <-done }
}

// meet connects to the decode worker's memory.
func (t *task) meet(target *instancev1.Instance) (err error) {
	ctx, span := t.p.tracer.Start(t.a.ctx, "prefillworker.metadata")
	defer span.End()
	if t.peer, err = t.p.deps.Worker.Meet(ctx, target); err != nil {
		return &unreachable{err}
	}
	return nil
}

// unreachable is why a decode worker's memory was not met: nothing of the attempt was written.
type unreachable struct{ error }

func (u *unreachable) Unwrap() error { return u.error }

// admit finds blocks for the prompt here, and reads the prefix that only the decode worker has.
func (t *task) admit(first *result) error {
	ctx, span := t.p.tracer.Start(t.a.ctx, "prefillworker.admit")
	defer span.End()
	options := t.p.deps.Worker.Options(t.spec.Salt)
	options.PromptOnly = true
	if t.out != nil {
		options.Placed = t.out.placed
	}
	q, err := t.p.deps.Worker.Scheduler.Submit(t.spec, first, options)
	if err != nil {
		return fmt.Errorf("submit: %w: %w", errRefused, err)
	}
	if err := q.Wait(ctx); err != nil {
		return fmt.Errorf("wait for blocks: %w", err)
	}
	t.q, t.own = q, q.Table().CachedTokens()
	err = t.readPrefix(ctx)
	span.SetAttributes(attribute.Int("own_hit_tokens", t.own), attribute.Int("read_tokens", t.read))
	if err != nil {
		q.Cancel()
	}
	return err
}

// compute runs the prompt and waits for its first token.
func (t *task) compute(first *result) error {
	_, span := t.p.tracer.Start(t.a.ctx, "prefillworker.compute")
	defer span.End()
	span.SetAttributes(attribute.Int("tokens", t.spec.Len()-t.own-t.read))
	// Cancelling before the start ends the sequence as well; its end comes in any case.
	stop := context.AfterFunc(t.a.ctx, t.q.Cancel)
	defer stop()
	if err := t.q.Start(); err != nil && !errors.Is(err, scheduler.ErrState) {
		return err
	}
	<-first.done
	if first.err != nil {
		return first.err
	}
	t.own = t.q.Table().CachedTokens() // others may have computed more of it by the time of its turn
	if !first.drawn {
		return fmt.Errorf("the prompt was not finished: %s", first.finish)
	}
	return nil
}

// notify tells the decode worker and waits for its answer.
func (t *task) notify(first *result) error {
	ctx, span := t.p.tracer.Start(t.a.ctx, "prefillworker.notify")
	defer span.End()
	note, err := proto.Marshal(t.note(first))
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // the writer's word was given, or nobody waits
		return ctx.Err()
	}
	t.a.noted.Store(true)
	for {
		if err := t.p.deps.Worker.Agent.Notify(ctx, t.peer, note); err != nil {
			return fmt.Errorf("tell %s: %w", t.peer, err)
		}
		timer := time.NewTimer(answerWithin)
		select {
		case outcome := <-t.a.answer:
			timer.Stop()
			span.SetAttributes(attribute.String("outcome", outcome.String()))
			return t.answered(outcome)
		case <-timer.C: // the note or its answer was lost; a second one changes nothing
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (t *task) note(first *result) *transferv1.CompletionNote {
	return &transferv1.CompletionNote{
		TransferId: t.a.key.transfer, AttemptId: t.a.key.attempt, Ticket: t.ticket.GetNumber(),
		Blocks: t.ticket.GetBlocks(), FirstPosition: t.ticket.GetFirstPosition(), EndPosition: t.ticket.GetEndPosition(),
		FirstTokens:   []*transferv1.FirstToken{t.firstToken(first)},
		PrefillWorker: t.p.deps.Worker.ID().Name,
		OwnHitTokens:  uint32(t.own), ReadTokens: uint32(t.read), ComputedTokens: uint32(t.spec.Len() - t.own - t.read),
		AdmitTime: durationpb.New(t.admitting), ComputeTime: durationpb.New(t.computing), WriteTime: durationpb.New(t.writing),
		WrittenBytes: t.out.bytes, TransferTime: durationpb.New(t.out.busy),
	}
}

func (t *task) firstToken(first *result) *transferv1.FirstToken {
	return &transferv1.FirstToken{
		Choice: uint32(t.spec.Choice), Token: first.token, FinishReason: worker.FinishReason(first.finish), Logprobs: worker.LogProbs(first.probs),
	}
}

// answered counts the outcome; whatever it is, the job is done.
func (t *task) answered(outcome transferv1.NoteOutcome) error {
	t.p.tally(func(r *prefillworkerv1.JobReport) {
		switch outcome {
		case transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED:
			r.Committed++
			r.PromptTokens += uint64(t.spec.Len())
			r.OwnHitTokens += uint64(t.own)
			r.ReadTokens += uint64(t.read)
			r.ComputedTokens += uint64(t.spec.Len() - t.own - t.read)
			r.WrittenTokens += uint64(t.ticket.GetEndPosition() - t.ticket.GetFirstPosition())
		case transferv1.NoteOutcome_NOTE_OUTCOME_GONE:
			r.Gone++
		default:
			r.Stale++
		}
	})
	if outcome == transferv1.NoteOutcome_NOTE_OUTCOME_STALE {
		// The ticket was lost, the transfer may still be wanted.
		return &later{0, errors.New("the note was stale")}
	}
	return nil
}

// result receives the first token. The step loop writes it before done is closed.
type result struct {
	token  sequence.Token
	probs  *sequence.LogProbs // where they are asked for
	drawn  bool
	finish sequence.Finish
	err    error
	done   chan struct{}
}

// Token implements scheduler.Sink.
func (r *result) Token(t sequence.Token, p *sequence.LogProbs) {
	r.token, r.probs, r.drawn = t, p, true
}

// End implements scheduler.Sink.
func (r *result) End(reason sequence.Finish, err error) {
	r.finish, r.err = reason, err
	close(r.done)
}

var _ scheduler.Sink = (*result)(nil)
