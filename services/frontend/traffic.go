package frontend

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
)

// traffic gathers what the planner wants to know, from one report to the next. Requests
// that were refused before they were dispatched are no traffic.
type traffic struct {
	mu     sync.Mutex // guards all
	active uint32
	sums   sums
}

// sums are over the requests that ended since the last report.
type sums struct {
	ended, failed    uint64
	answered         uint64 // those of ended that have token counts
	input, output    uint64
	timeToFirstToken time.Duration
	several          uint64 // those of answered with more than one token
	interToken       time.Duration
}

func (t *traffic) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active++
}

func (t *traffic) end(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active--
	t.sums.ended++
	if o.failed() {
		t.sums.failed++
	}
	if o.a.end == nil {
		return
	}
	t.sums.answered++
	t.sums.input += uint64(o.a.end.GetUsage().GetPromptTokens())
	t.sums.output += uint64(o.a.end.GetUsage().GetCompletionTokens())
	t.sums.timeToFirstToken += o.timeToFirstToken()
	if itl, ok := o.interTokenLatency(); ok {
		t.sums.several++
		t.sums.interToken += itl
	}
}

// take returns the report of the interval that ends now, and begins the next.
func (t *traffic) take(interval time.Duration) *plannerv1.TrafficReport {
	t.mu.Lock()
	s, active := t.sums, t.active
	t.sums = sums{}
	t.mu.Unlock()
	r := &plannerv1.TrafficReport{
		Interval: durationpb.New(interval), Requests: s.ended, FailedRequests: s.failed, ActiveRequests: active,
		MeanTimeToFirstToken: durationpb.New(0), MeanInterTokenLatency: durationpb.New(0),
	}
	if s.answered > 0 {
		r.MeanInputTokens = float64(s.input) / float64(s.answered)
		r.MeanOutputTokens = float64(s.output) / float64(s.answered)
		r.MeanTimeToFirstToken = durationpb.New(s.timeToFirstToken / time.Duration(s.answered))
	}
	if s.several > 0 {
		r.MeanInterTokenLatency = durationpb.New(s.interToken / time.Duration(s.several))
	}
	return r
}

// reportInterval is how often the planner hears of this process, and the time a report has.
const reportInterval = time.Second

// report tells the planner until ctx ends. A report that does not arrive is lost.
func (f *Frontend) report(ctx context.Context) error {
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	last, lost := time.Now(), false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		err := f.reportOnce(ctx, now, now.Sub(last))
		last = now
		if (err != nil) != lost && ctx.Err() == nil {
			lost = err != nil
			f.deps.Logger.InfoContext(ctx, "reports to the planner", "lost", lost, "error", err)
		}
	}
}

func (f *Frontend) reportOnce(ctx context.Context, now time.Time, interval time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, reportInterval)
	defer cancel()
	_, err := f.deps.Planner.Report(ctx, &plannerv1.ReportRequest{
		Instance: f.deps.Instance, Time: timestamppb.New(now),
		Report: &plannerv1.ReportRequest_Traffic{Traffic: f.server.traffic.take(interval)},
	})
	return err
}
