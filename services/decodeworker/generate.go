package decodeworker

import (
	"context"
	"errors"
	"maps"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/handoff"
)

// placements counts sequences by where their prompt was computed, and why.
type placements struct {
	local, remote, fallback uint64
	reasons                 map[string]uint64
}

// generation is one sequence on this worker, from its submit to its end.
type generation struct {
	d   *DecodeWorker
	msg *generationv1.Sequence
	out output

	// Set by run before the step loop, or anybody who cancels, has the sequence.
	sequence      *scheduler.Sequence
	span          trace.Span
	decode        trace.Span  // from the prompt's placing to the end
	cached        int         // tokens of the prompt that were resident
	stop          func() bool // undoes the watch on the caller's context
	placement     generationv1.Placement
	prefillWorker string
	decided       decided

	trial bool // it has the place of the one on trial

	phase  phase // guarded by d.mu
	tokens int   // generated; the sink's calls follow one another
}

// output is where a generation's tokens and its terminal status go. Its calls return at once.
type output interface {
	Token(t sequence.Token, p *sequence.LogProbs)
	Ended(e *decodeworkerv1.Ended)
	// Trial says that a sequence is about to be computed on trial. What it answers can be received
	// from, once, when that is known to whoever counts the crashes.
	Trial() (proceed <-chan struct{})
}

// submit puts a sequence into the waiting line. On an error it was refused and out is not called.
func (d *DecodeWorker) submit(msg *generationv1.Sequence, out output) (*generation, error) {
	if !d.intake.enter() {
		return nil, rpc.Unavailable("the worker is draining")
	}
	g := &generation{d: d, msg: msg, out: out}
	spec := worker.Spec(msg)
	var err error
	opt := d.deps.Worker.Options(spec.Salt)
	if msg.GetCrashes() > 0 {
		opt.Alone = trialTokens
	}
	if g.sequence, err = d.deps.Worker.Scheduler.Submit(spec, g, opt); err != nil {
		d.intake.leave()
		return nil, refusal(err)
	}
	return g, nil
}

// refusal gives the scheduler's errors their status.
func refusal(err error) error {
	switch {
	case errors.Is(err, scheduler.ErrBusy):
		return rpc.ResourceExhausted("too many sequences wait on this worker", 0)
	case errors.Is(err, scheduler.ErrClosed):
		return rpc.Unavailable("the worker is stopping")
	}
	return rpc.InvalidArgument("sequence", err.Error())
}

// run sees the sequence to the point where the step loop has it. ctx ends when nobody
// wants the sequence any more.
func (g *generation) run(ctx context.Context) {
	ctx = telemetry.WithRequestID(ctx, g.msg.GetRequestId())
	ctx, g.span = g.d.tracer.Start(ctx, "decodeworker.generate")
	if err := g.sequence.Wait(ctx); err != nil {
		g.refused(ctx, err)
		return
	}
	g.cached = g.sequence.Table().CachedTokens()
	g.span.SetAttributes(attribute.Int("cached_tokens", g.cached))
	if g.msg.GetCrashes() > 0 {
		if err := g.onTrial(ctx); err != nil && ctx.Err() == nil {
			g.sequence.Fail(err)
			return
		}
	}
	start := g.place(ctx)
	if ctx.Err() != nil { // nobody wants it, or what place met came of that
		g.sequence.Cancel()
		return
	}
	// Until here the table was run's alone: nobody released it while its blocks were being
	// reserved, poisoned or booked anew. From here on the sequence ends with ctx wherever it is.
	_, g.decode = g.d.tracer.Start(ctx, "decodeworker.decode")
	watching := make(chan struct{})
	g.stop = context.AfterFunc(ctx, func() { <-watching; g.sequence.Cancel() })
	close(watching)
	if err := start(); err != nil {
		g.sequence.Fail(err) // changes nothing for one that has ended
	}
}

// refused ends a generation that was never admitted.
func (g *generation) refused(ctx context.Context, err error) {
	if ctx.Err() != nil {
		g.End(sequence.FinishCancelled, nil)
		return
	}
	g.End(sequence.FinishError, refusal(err))
}

// place decides where the prompt is computed, has it computed if that is elsewhere, and
// answers what hands the sequence to the step loop.
func (g *generation) place(ctx context.Context) (start func() error) {
	g.decided = g.decide(ctx)
	reason := string(g.decided.Reason)
	if !g.decided.Remote {
		g.placed(generationv1.Placement_PLACEMENT_LOCAL, reason, "")
		g.enter(prefilling)
		return g.sequence.Start
	}
	g.enter(handedOff)
	first, err := g.d.handoff.Prefill(ctx, g.sequence, g.msg)
	if err == nil {
		g.placed(generationv1.Placement_PLACEMENT_REMOTE, reason, first.PrefillWorker)
		g.learnRemote(first)
		return func() error { return g.sequence.Attach(first.Token, first.LogProbs, first.Finish) }
	}
	if crash := (*handoff.Crash)(nil); errors.As(err, &crash) {
		g.d.countReason("fallback_" + string(handoff.CauseCrash))
		return func() error { return crash } // whoever submitted it counts, and submits it again
	}
	if ctx.Err() == nil {
		g.learnLost(err)
		g.enter(prefilling)
		err = g.fallBack(ctx, err)
	}
	if err != nil {
		return func() error { return err }
	}
	return g.sequence.Start
}

// fallBack books the blocks of a prompt that is computed here after all.
func (g *generation) fallBack(ctx context.Context, cause error) error {
	reason := "fallback"
	if f := (*handoff.FallBack)(nil); errors.As(cause, &f) {
		reason = "fallback_" + string(f.Cause)
	}
	g.placed(generationv1.Placement_PLACEMENT_FALLBACK, reason, "")
	err := g.d.handoff.Rebook(ctx, g.sequence.Table())
	if errors.Is(err, block.ErrNoRoom) { // another worker has no such writer
		return rpc.Unavailable("the blocks of the prompt stay in quarantine: " + err.Error())
	}
	return err
}

func (g *generation) placed(p generationv1.Placement, reason, prefillWorker string) {
	g.placement, g.prefillWorker = p, prefillWorker
	g.span.SetAttributes(attribute.String("placement", p.String()))
	c := &g.d.counts
	g.d.mu.Lock()
	defer g.d.mu.Unlock()
	switch p {
	case generationv1.Placement_PLACEMENT_LOCAL:
		c.local++
	case generationv1.Placement_PLACEMENT_REMOTE:
		c.remote++
	default:
		c.fallback++
	}
	c.reasons[reason]++
}

func (d *DecodeWorker) countReason(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.reasons[reason]++
}

// Token implements scheduler.Sink.
func (g *generation) Token(t sequence.Token, p *sequence.LogProbs) {
	g.tokens++
	switch g.tokens {
	case 1:
		g.firstToken()
	case trialTokens:
		g.endTrial()
	}
	g.out.Token(t, p)
}

// End implements scheduler.Sink.
func (g *generation) End(reason sequence.Finish, err error) {
	if g.stop != nil {
		g.stop()
	}
	g.endTrial()
	e := &decodeworkerv1.Ended{
		Reason: worker.FinishReason(reason), CachedTokens: uint32(g.hit()),
		Placement: g.placement, PrefillWorker: g.prefillWorker,
	}
	if g.decode != nil {
		g.decode.SetAttributes(attribute.Int("tokens", g.tokens))
		g.decode.End()
		g.d.learnSteps(time.Now())
	}
	g.enter(over)
	if errors.Is(err, scheduler.ErrClosed) {
		err = refusal(err)
	}
	if err != nil {
		e.Code, e.Message = uint32(rpc.Code(err)), rpc.Message(err)
		if c := (*handoff.Crash)(nil); errors.As(err, &c) {
			e.Code, e.CrashedWorker, e.CrashedIncarnation = uint32(codes.Aborted), c.Peer.Name, c.Peer.Incarnation
		}
		if e.Code == uint32(codes.OK) || e.Code == uint32(codes.Unknown) {
			e.Code, e.Message = uint32(codes.Internal), err.Error()
		}
	}
	g.span.SetAttributes(attribute.String("finish", reason.String()))
	g.span.End()
	g.out.Ended(e)
	g.d.intake.leave() // last: who waits for the worker to be idle finds all ends said
}

// hit is how much of the prompt was resident when it was begun.
func (g *generation) hit() int {
	if t := g.sequence.Table(); t != nil {
		return t.CachedTokens()
	}
	return 0
}

// handOffReport is the hand-off's counters and the decisions'.
func (d *DecodeWorker) handOffReport() *decodeworkerv1.HandOffReport {
	r := &decodeworkerv1.HandOffReport{}
	d.handoff.Report(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Local, r.Remote, r.Fallback = d.counts.local, d.counts.remote, d.counts.fallback
	r.Reasons = maps.Clone(d.counts.reasons)
	return r
}
