package worker

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
)

// reportEvery is how often the planner is told.
const reportEvery = time.Second

// ReportLoop tells the planner of a worker each second until ctx ends; add completes a
// report. A planner that is nil or does not answer costs nothing.
func ReportLoop(ctx context.Context, w *Worker, planner plannerv1.PlannerClient, self *instancev1.Instance, add func(*plannerv1.WorkerReport)) error {
	if planner == nil {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	last, at := w.Scheduler.Report(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, when := w.Scheduler.Report(), time.Now()
		r := &plannerv1.WorkerReport{
			Load: w.LoadReport(), Pool: w.PoolReport(),
			PrefillUtilisation: share(now.PrefillBusy-last.PrefillBusy, when.Sub(at)),
			DecodeUtilisation:  share(now.DecodeBusy-last.DecodeBusy, when.Sub(at)),
		}
		add(r)
		last, at = now, when
		bounded, cancel := context.WithTimeout(ctx, reportEvery)
		_, _ = planner.Report(bounded, &plannerv1.ReportRequest{ // the next report replaces a lost one
			Instance: self, Time: timestamppb.New(when), Report: &plannerv1.ReportRequest_Worker{Worker: r},
		})
		cancel()
	}
}

func share(busy, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return min(1, busy.Seconds()/of.Seconds())
}
