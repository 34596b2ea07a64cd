package serve

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Print prints a result for people.
func (r *Result) Print(out io.Writer, cfg *Config) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s, %s: %d requests and %d failed in %.2f s\n", r.Model, cfg.Case(), len(r.Samples), r.Failed(), r.Elapsed.Seconds())
	if len(r.Samples) > 0 {
		fmt.Fprintf(w, "%.1f requests/s, %.0f output tokens/s, %.0f input tokens/s", r.Rate(len(r.Samples)), r.Rate(r.Output), r.Rate(r.Input))
		if r.Input > 0 {
			fmt.Fprintf(w, ", %.1f %% of them cached", 100*float64(r.Cached)/float64(r.Input))
		}
		fmt.Fprintln(w, "\n\nms\tmean\tp50\tp90\tp99\tmax\t")
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		for _, t := range r.Times(cfg) {
			fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t\n", t.Name, ms(t.Mean), ms(t.P50), ms(t.P90), ms(t.P99), ms(t.Max))
		}
	}
	fmt.Fprintln(w)
	if cfg.SLOTTFT != 0 || cfg.SLOITL != 0 {
		met := r.Met(cfg.SLOTTFT, cfg.SLOITL)
		fmt.Fprintf(w, "goodput %.1f requests/s: %d met the targets\n", r.Rate(met), met)
	}
	r.printProcesses(w)
	if r.Limited > 0 {
		fmt.Fprintf(w, "%d answers were 429\n", r.Limited)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(w, "%d failed: %s: %s\n", f.Count, f.Kind, f.Message)
	}
	return w.Flush()
}

func (r *Result) printProcesses(w io.Writer) {
	cpu := func(used time.Duration) {
		if len(r.Samples) > 0 {
			fmt.Fprintf(w, ", %.3f ms per request", used.Seconds()*1e3/float64(len(r.Samples)))
		}
		if r.Output > 0 {
			fmt.Fprintf(w, ", %.2f µs per output token", used.Seconds()*1e6/float64(r.Output))
		}
		if r.Chunks > 0 {
			fmt.Fprintf(w, ", %.2f µs per chunk", used.Seconds()*1e6/float64(r.Chunks))
		}
		fmt.Fprintln(w)
	}
	sum, read := time.Duration(0), 0
	for _, p := range r.Processes {
		if p.Err != nil {
			continue // the command's error says so
		}
		fmt.Fprintf(w, "pid %d: RSS %.1f to %.1f MiB; CPU %.2f s", p.PID, float64(p.RSSBegin)/(1<<20), float64(p.RSSEnd)/(1<<20), p.CPU.Seconds())
		cpu(p.CPU)
		sum += p.CPU
		read++
	}
	if read > 1 && read == len(r.Processes) {
		fmt.Fprintf(w, "all pids: CPU %.2f s", sum.Seconds())
		cpu(sum)
	}
	if r.Client > 0 {
		fmt.Fprintf(w, "this client: CPU %.2f s", r.Client.Seconds())
		cpu(r.Client)
	}
}
