package processor

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor/link"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// dispatcher sends one sequence to workers, one attempt after the other.
type dispatcher struct {
	p       *Processor
	base    *generationv1.Sequence // as prompt made it
	choice  uint32
	session string
	worker  string // the only one that is wanted; empty: any
	near    string // the one that comes first, as it has the prompt; empty: none
	attempt uint32
	refused []router.WorkerID // they would not take the sequence, and are not asked again
	refusal error             // what the last of them said
	left    []router.WorkerID // they gave the sequence up: others come first
	crashes crashes
}

// dispatch is a sequence on its way at a worker.
type dispatch struct {
	*link.Sequence
	p         *Processor
	choice    router.Choice
	peer      *peer
	address   string         // of the worker
	request   router.Request // that it was sent with
	hint      router.Hint
	generated int  // tokens that came from there
	computed  bool // the prompt is
}

// next picks a worker and sends it the sequence with the tokens that were generated so
// far. It waits for a worker where all that are known cannot be reached at the moment.
func (d *dispatcher) next(ctx context.Context, generated []sequence.Token) (*dispatch, error) {
	d.attempt++
	d.crashes.at(len(generated))
	tokens := d.base.GetPrompt()
	if len(generated) > 0 {
		tokens = slices.Concat(tokens, generated)
	}
	request := router.Request{
		Model: d.p.deps.Model.Name, Salt: d.base.GetCacheSalt(), Tokens: tokens, MaxOutput: int(d.base.GetMaxTokens()) - len(generated),
		Session: d.session, Worker: d.worker,
	}
	sub := link.Submission{Sequence: d.sequence(ctx, generated), TraceContext: traceContext(ctx)}
	hint := d.p.router.Hint(request)
	sub.Sequence.PrefillHint, sub.Sequence.PrefillHintTokens = hint.Names, uint32(hint.Tokens)
	sent := false
	defer func() {
		if !sent {
			d.p.router.Placed(&hint)
		}
	}()

	ctx, span := d.p.tracer.Start(ctx, "processor.route")
	defer span.End()
	timer := time.NewTimer(d.p.cfg.DispatchWait)
	defer timer.Stop()
	for {
		changed := d.p.workers.state().changed
		request.Avoid = slices.Concat(d.refused, d.left)
		if run := d.sendNear(request, sub); run != nil {
			run.request, run.hint, sent = request, hint, true
			d.p.metrics.picked(ctx, run.peer, &run.choice)
			if span.IsRecording() {
				run.describe(span, d.attempt)
			}
			return run, nil
		}
		if len(d.left) > 0 {
			d.left = nil
			continue
		}
		// What was begun goes on when a worker is back, also after the last one's lease has ended.
		if begun := d.attempt > 1 && len(d.refused) == 0; !begun && !d.p.workers.others(d.refused) {
			return nil, d.noWorker()
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, d.noWorker()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// sendNear is send, but asks the worker first that has the prompt.
func (d *dispatcher) sendNear(request router.Request, sub link.Submission) *dispatch {
	if d.near != "" && request.Worker == "" {
		request.Worker = d.near
		d.near = ""
		if run := d.send(request, sub); run != nil {
			return run
		}
		request.Worker = ""
	}
	return d.send(request, sub)
}

// send picks, books and submits in one step; nil when no worker takes the sequence.
func (d *dispatcher) send(request router.Request, sub link.Submission) *dispatch {
	run := &dispatch{p: d.p}
	choice, err := d.p.router.Pick(request, func(c *router.Choice) bool {
		sub.Booking = c.Booking
		run.Sequence, run.peer, run.address = d.p.workers.submit(c.Worker, sub)
		return run.Sequence != nil
	})
	if err != nil {
		return nil
	}
	run.choice = choice
	return run
}

func (d *dispatcher) noWorker() error {
	if d.refusal != nil {
		return d.refusal
	}
	return errNoWorker(d.p.deps.Model.Name)
}

// sequence is what this attempt sends. The base is shared by all attempts and not changed.
func (d *dispatcher) sequence(ctx context.Context, generated []sequence.Token) *generationv1.Sequence {
	b := d.base
	s := &generationv1.Sequence{
		RequestId: b.GetRequestId(), Choice: d.choice, Attempt: d.attempt, Prompt: b.GetPrompt(), Generated: generated,
		MaxTokens: b.GetMaxTokens(), MinTokens: b.GetMinTokens(), StopTokens: b.GetStopTokens(), CacheSalt: b.GetCacheSalt(),
		Sampling: b.GetSampling(), Logprobs: b.Logprobs, Priority: b.GetPriority(), Crashes: uint32(len(d.crashes.deaths)),
	}
	if deadline, ok := ctx.Deadline(); ok {
		s.Deadline = timestamppb.New(deadline)
	}
	return s
}

// failed notes how an attempt ended, with so many tokens generated, and says whether there may be
// another; if not, it returns the error of the request.
func (d *dispatcher) failed(ctx context.Context, run *dispatch, err error, generated int) error {
	var (
		broken *link.BrokenError
		worker *workerError
	)
	switch {
	case errors.As(err, &broken):
		if broken.Lost && d.p.deps.Died != nil && d.p.deps.Died(ctx, run.address) {
			d.crashes.count(run.choice.Worker.Name, run.choice.Worker.Incarnation, broken, generated, run.Tried())
		}
	case errors.As(err, &worker) && worker.crashed != "": // the decode worker itself did nothing wrong
		d.crashes.count(worker.crashed, worker.incarnation, worker, generated, false)
	case errors.As(err, &worker) && worker.gaveUp():
		d.left = append(d.left, run.choice.Worker)
	case errors.As(err, &worker) && worker.refused():
		d.refused = append(d.refused, run.choice.Worker)
		d.refusal = worker.refusal()
	default:
		return err
	}
	if d.crashes.convicted() {
		d.p.bury(ctx, d.base, &d.crashes, generated)
		return errCrashedWorkers(d.crashes.deaths)
	}
	if int(d.attempt) > d.p.cfg.Migrations {
		if d.refusal != nil {
			return d.refusal
		}
		return errMigrations(int(d.attempt), err)
	}
	return nil
}

// describe tells the trace what was picked, and why.
func (d *dispatch) describe(span trace.Span, attempt uint32) {
	c, t, w := &d.choice, &d.choice.Terms, d.p.router.Weights()
	span.SetAttributes(
		attribute.String("policy", string(w.Policy)), attribute.Float64("prefill_weight", w.PrefillWeight),
		attribute.Float64("decode_weight", w.DecodeWeight), attribute.Float64("stall_weight", w.StallWeight),
		attribute.String("decode_worker", c.Worker.Name), attribute.Int("attempt", int(attempt)), attribute.Int("candidates", c.Candidates),
		attribute.Float64("cost", c.Cost), attribute.Float64("prefill", t.Prefill), attribute.Float64("queue", t.Queue), attribute.Float64("decode", t.Decode), attribute.Float64("stall", t.Stall),
		attribute.Bool("in_blocks", t.InBlocks), attribute.Float64("uncached_tokens", t.UncachedTokens), attribute.Int("device_blocks", t.DeviceBlocks),
		attribute.Int("host_blocks", t.HostBlocks), attribute.Int("disk_blocks", t.DiskBlocks), attribute.Int("pending_blocks", t.PendingBlocks))
}

// cancel asks the worker to end the sequence at once; its end still comes.
func (d *dispatch) cancel(reason string) {
	if d.Cancel(reason) {
		d.p.router.Withdraw(&d.choice)
	}
}

// took notes tokens that came. With the first the prompt is computed.
func (d *dispatch) took(n int) {
	d.generated += n
	if n > 0 && !d.computed {
		d.computed = true
		d.p.router.Placed(&d.hint)
		d.p.router.Computed(&d.choice)
	}
}

// ended compares what the worker had of the prompt with what it was taken to hold.
func (d *dispatch) ended(ctx context.Context, cachedTokens int) {
	d.peer.traffic.add(len(d.request.Tokens), d.choice.HeldTokens, cachedTokens)
	d.p.metrics.cachedTokens.Add(ctx, int64(cachedTokens))
	if d.p.router.Observed(&d.choice, d.request, cachedTokens) {
		d.p.metrics.corrections.Add(ctx, 1)
		d.p.log.WarnContext(ctx, "a decode worker held less of a prompt than its events say; the index is corrected",
			"worker_id", d.choice.Worker.Name, "said_tokens", d.choice.HeldTokens, "had_tokens", cachedTokens)
		if d.peer.corrections.Add(1)%resyncEvery == 0 {
			d.p.workers.events.join(d.peer.self())
		}
	}
}

// close ends the sequence for good. It must be called.
func (d *dispatch) close(reason string) {
	d.p.router.Placed(&d.hint)
	d.Close(reason)
	d.p.router.Ended(&d.choice, d.generated)
}

// traceContext is what a worker continues the trace from; nil when ctx is not traced.
func traceContext(ctx context.Context) map[string]string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if len(carrier) == 0 {
		return nil
	}
	return carrier
}
