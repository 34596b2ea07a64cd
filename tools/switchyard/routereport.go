package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/switchyard-llm/switchyard/tools/bench"
	"github.com/switchyard-llm/switchyard/tools/bench/route"
)

// routeReport prints results: a table per rate, or figures.
type routeReport struct {
	out    io.Writer
	json   bench.Report // nil: tables
	table  *tabwriter.Writer
	rate   float64
	pooled float64
}

func newRouteReport(out io.Writer, json bool) *routeReport {
	r := &routeReport{out: out}
	if json {
		r.json = bench.JSON(out)
	}
	return r
}

func (r *routeReport) saturation(rate float64) {
	if r.json != nil {
		r.json(bench.Figure{Bench: "route", Case: "saturation", Name: "rate", Value: rate})
		return
	}
	fmt.Fprintf(r.out, "saturation at rate %.4f\n", rate)
}

// begin starts the results of a rate; pooled is the reuse of one cache in place of all.
func (r *routeReport) begin(rate, pooled float64) {
	r.rate, r.pooled = rate, pooled
	if r.json != nil {
		r.json(bench.Figure{Bench: "route", Case: fmt.Sprintf("pooled, rate %.4g", rate), Name: "reuse", Value: pooled})
		return
	}
	r.table = tabwriter.NewWriter(r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(r.out, "rate %.4f; times in ms, E2E in s, rates per second\n", rate)
	fmt.Fprintln(r.table, "policy\treuse\tof pooled\tTTFT mean\tp50\tp99\tITL mean\tp50\tp99\tE2E mean\tp99\toffered\tgoodput\tmet\timbalance\tof prompts\tbusy\tdecisions\t")
	fmt.Fprintf(r.table, "pooled\t%.4f\t1\t\n", pooled)
}

func (r *routeReport) result(s route.Result) {
	if r.json != nil {
		for _, f := range figures(r.rate, s) {
			r.json(f)
		}
		return
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	fmt.Fprintf(r.table, "%s\t%.4f\t%.3f\t", s.Policy, s.Reuse, s.Reuse/r.pooled)
	fmt.Fprintf(r.table, "%.0f\t%.0f\t%.0f\t", ms(s.TTFT.Mean), ms(s.TTFT.P50), ms(s.TTFT.P99))
	fmt.Fprintf(r.table, "%.1f\t%.1f\t%.0f\t", ms(s.ITL.Mean), ms(s.ITL.P50), ms(s.ITL.P99))
	fmt.Fprintf(r.table, "%.2f\t%.1f\t", s.EndToEnd.Mean.Seconds(), s.EndToEnd.P99.Seconds())
	fmt.Fprintf(r.table, "%.2f\t%.2f\t%.3f\t%.3f\t%.2f\t%.2f\t%.2g\t\n", s.Offered, s.Goodput, s.Met, s.Imbalance, s.PromptImbalance, s.Busy, s.Decisions)
}

// end shows the table of a rate.
func (r *routeReport) end() error {
	if r.json != nil {
		return nil
	}
	if err := r.table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(r.out)
	return err
}

// replayBar shows on a terminal how far a replay that takes a while has come.
type replayBar struct {
	w     io.Writer // nil: nowhere
	total int
	task  string
	begin time.Time
	shown time.Time // zero: nothing is shown
}

const (
	barAfter = 2 * time.Second
	barEvery = 100 * time.Millisecond
)

func newReplayBar(w *os.File, requests int) *replayBar {
	b := &replayBar{total: requests, begin: time.Now()}
	if info, err := w.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		b.w = w
	}
	return b
}

// show tells that so many requests of the present replay are through.
func (b *replayBar) show(done int) {
	now := time.Now()
	if b.w == nil || now.Sub(b.begin) < barAfter || now.Sub(b.shown) < barEvery {
		return
	}
	b.shown = now
	fmt.Fprintf(b.w, "\r\x1b[Kreplaying %s: %d %%", b.task, done*100/b.total)
}

// clear takes the line away.
func (b *replayBar) clear() {
	if !b.shown.IsZero() {
		b.shown = time.Time{}
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
