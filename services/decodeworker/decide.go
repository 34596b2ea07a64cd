package decodeworker

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-llm/switchyard/libs/scheduler"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
	"github.com/switchyard-llm/switchyard/services/decodeworker/handoff"
	"github.com/switchyard-llm/switchyard/services/decodeworker/speed"
)

// decided is a decision with what it was made from.
type decided struct {
	disagg.Decision
	facts disagg.Facts
	at    time.Time     // when it began to be made
	busy  time.Duration // what the scheduler's steps had taken until then
}

// decide gathers the facts and applies the policy in force.
func (g *generation) decide(ctx context.Context) decided {
	ctx, span := g.d.tracer.Start(ctx, "decodeworker.decide")
	defer span.End()
	policy, at := g.d.deps.Policy(), time.Now()
	report := g.d.learnSteps(at)
	f := g.facts(report)
	g.d.speeds.Prepare(at, &f)
	f.Queue.Known = policy.Policy == disagg.Cost // and empty: where that is local, nobody need be asked
	decision := disagg.Decide(&policy, &f)
	if policy.Policy == disagg.Threshold && f.PrefillWorkers > 0 && !f.OnTrial || policy.Policy == disagg.Cost && decision.Remote {
		f.Queue = g.d.queue(ctx)
		decision = disagg.Decide(&policy, &f)
	}
	if policy.Policy == disagg.Cost {
		g.d.speeds.Decided(&decision)
	}
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("policy", policy.Policy), attribute.String("reason", string(decision.Reason)),
			attribute.Bool("remote", decision.Remote), attribute.Int("uncached_tokens", f.PromptTokens-f.CachedTokens),
			attribute.Int("queue_waiting", f.Queue.Waiting), attribute.Int("prefill_workers", f.PrefillWorkers),
			attribute.Int("decoding", f.Decoding), attribute.Int("ahead_tokens", f.AheadTokens),
			milliseconds("local_ttft_ms", decision.LocalTTFT), milliseconds("remote_ttft_ms", decision.RemoteTTFT),
			milliseconds("queue_wait_ms", decision.QueueWait), milliseconds("itl_harm_ms", decision.ITLHarm),
		)
	}
	return decided{Decision: decision, facts: f, at: at, busy: report.PrefillBusy + report.DecodeBusy}
}

// facts are those of this worker.
func (g *generation) facts(r scheduler.Report) disagg.Facts {
	d, layout := g.d, g.d.deps.Worker.Layout()
	f := disagg.Facts{
		PromptTokens: g.sequence.Spec().Len(), CachedTokens: g.cached, PrefillWorkers: d.prefillWorkers(),
		OfferedTokens: d.deps.Worker.Pool.HoldRoom() * layout.BlockTokens, RowBytes: d.deps.Worker.RowBytes(),
		StepTokens: d.cfg.Pool.StepTokens, OnTrial: g.msg.GetCrashes() > 0,
	}
	uncached := f.PromptTokens - f.CachedTokens
	f.Deadline = d.cfg.HandOff.Deadline + time.Duration(uncached)*d.cfg.HandOff.PerToken
	d.mu.Lock()
	defer d.mu.Unlock()
	f.Decoding, f.AheadTokens = d.phases.sequences[decoding], d.phases.ahead(r.WaitingTokens, uncached)
	return f
}

// queue asks for the state of the prefill queue. What it knows may be older than the jobs
// that this worker has just put into it.
func (d *DecodeWorker) queue(ctx context.Context) disagg.Queue {
	depth, err := d.deps.Queue.Depth(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	return disagg.Queue{
		Known: err == nil, Working: depth.Working, Oldest: depth.Oldest,
		Waiting: max(depth.Waiting, d.phases.sequences[handedOff]-depth.Working),
	}
}

// learnSteps learns from the scheduler's counters.
func (d *DecodeWorker) learnSteps(now time.Time) scheduler.Report {
	d.mu.Lock()
	attached := d.counts.remote
	d.mu.Unlock()
	r := d.deps.Worker.Scheduler.Report()
	d.speeds.Steps(now, r, attached)
	return r
}

// learnRemote learns from a hand-off that has come to its end.
func (g *generation) learnRemote(first handoff.First) {
	w, now := first.Work, time.Now()
	g.d.speeds.Remote(now, g.decided.facts, &g.decided.Decision, speed.HandOff{
		PrefillWorker: first.Peer.Name, Admit: w.Admit, Compute: w.Compute, Write: w.Write, Transfer: w.Transfer,
		Bytes: w.WrittenBytes, ComputedTokens: w.ComputedTokens, ReadTokens: w.ReadTokens, Whole: now.Sub(g.decided.at),
	})
}

// learnLost learns from one that came to nothing on the other side's account.
func (g *generation) learnLost(err error) {
	if f := (*handoff.FallBack)(nil); errors.As(err, &f) && f.Cause != handoff.CauseReserve {
		now := time.Now()
		g.d.speeds.Lost(now, g.decided.facts, now.Sub(g.decided.at))
	}
}

// firstToken compares the time to it with the prediction.
func (g *generation) firstToken() {
	now := time.Now()
	took, said, placement := now.Sub(g.decided.at), g.decided.RemoteTTFT, "remote"
	g.enter(decoding)
	r := g.d.learnSteps(now)
	switch {
	case g.trial: // it had half of the steps
		return
	case g.placement == generationv1.Placement_PLACEMENT_LOCAL:
		said, placement = g.decided.LocalTTFT, "local"
		g.d.speeds.Local(now, &g.decided.Decision, took, r.PrefillBusy+r.DecodeBusy-g.decided.busy)
	case g.placement == generationv1.Placement_PLACEMENT_FALLBACK: // nobody predicted that
		return
	}
	g.span.SetAttributes(milliseconds("ttft_ms", took), milliseconds("predicted_ttft_ms", said))
	g.d.metrics.firstToken(trace.ContextWithSpan(context.Background(), g.span), placement, took, said)
}

func milliseconds(key string, d time.Duration) attribute.KeyValue {
	return attribute.Float64(key, float64(d)/float64(time.Millisecond))
}

// metrics are what is recorded as it happens.
type metrics struct{ ttft, ttftError metric.Float64Histogram }

// seconds are the borders of the histograms: from the quickest hand-off to a long prompt.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 100}

func newMetrics(m metric.Meter) (r metrics, err error) {
	r.ttft, err = m.Float64Histogram("switchyard.handoff.ttft", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(seconds...),
		metric.WithDescription("Time from the decision to the first token, by where the prompt was computed"))
	if err != nil {
		return r, err
	}
	r.ttftError, err = m.Float64Histogram("switchyard.handoff.ttft.error", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(seconds...),
		metric.WithDescription("How far that time was from its prediction"))
	return r, err
}

func (m *metrics) firstToken(ctx context.Context, placement string, took, said time.Duration) {
	where, side := attribute.String("placement", placement), "late"
	if took < said {
		side = "early"
	}
	m.ttft.Record(ctx, took.Seconds(), metric.WithAttributes(where))
	m.ttftError.Record(ctx, (took - said).Abs().Seconds(), metric.WithAttributes(where, attribute.String("side", side)))
}
