package serve

import (
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/tools/bench"
)

// Case names the load of a config.
func (c Config) Case() string {
	c = c.complete()
	switch {
	case c.Trace != nil && c.Concurrency == 0:
		return fmt.Sprintf("trace at %.4g", c.RateScale)
	case c.Concurrency > 0:
		return fmt.Sprintf("concurrency %d", c.Concurrency)
	default:
		return fmt.Sprintf("rate %.4g", c.Rate)
	}
}

// Open tells whether requests are sent when they are due, in place of when others end.
func (c Config) Open() bool { return c.complete().Concurrency == 0 }

// Named are times with their name.
type Named struct {
	Name string
	Times
}

// Times are the distributions that the config gives sense to.
func (r *Result) Times(c *Config) (list []Named) {
	if c.Stream {
		list = append(list, Named{"TTFT", r.TTFT()}, Named{"ITL", r.ITL()}, Named{"TPOT", r.TPOT()})
	}
	list = append(list, Named{"E2E", r.EndToEnd()})
	if c.Open() {
		list = append(list, Named{"late", r.Late()})
	}
	return list
}

// Rate is how many of something there were in a second.
func (r *Result) Rate(count int) float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(count) / r.Elapsed.Seconds()
}

// Figures are a result's in the form that benchmarks print.
func (r *Result) Figures(c *Config) []bench.Figure {
	var list []bench.Figure
	add := func(name string, value float64, unit string) {
		list = append(list, bench.Figure{Bench: "serve", Case: c.Case(), Name: name, Value: value, Unit: unit})
	}
	add("requests", float64(len(r.Samples)), "")
	add("failed", float64(r.Failed()), "")
	add("elapsed", r.Elapsed.Seconds(), "s")
	if len(r.Samples) > 0 {
		for _, t := range r.Times(c) {
			for _, p := range []struct {
				name  string
				value time.Duration
			}{{"mean", t.Mean}, {"p50", t.P50}, {"p90", t.P90}, {"p99", t.P99}, {"max", t.Max}} {
				add(t.Name+", "+p.name, p.value.Seconds(), "s")
			}
		}
		add("throughput", r.Rate(len(r.Samples)), "requests/s")
		add("output", r.Rate(r.Output), "tokens/s")
		add("input", r.Rate(r.Input), "tokens/s")
		add("input tokens", float64(r.Input), "")
		add("output tokens", float64(r.Output), "")
		add("cached tokens", float64(r.Cached), "")
		add("chunks", float64(r.Chunks), "")
	}
	if c.SLOTTFT != 0 || c.SLOITL != 0 {
		add("goodput", r.Rate(r.Met(c.SLOTTFT, c.SLOITL)), "requests/s")
	}
	add("answers 429", float64(r.Limited), "")
	for _, f := range r.Faults {
		add("failed: "+f.Kind, float64(f.Count), "")
	}
	return append(list, r.processFigures(c)...)
}

// processFigures leave out what could not be read, and shares of nothing.
func (r *Result) processFigures(c *Config) []bench.Figure {
	var list []bench.Figure
	add := func(name string, value float64, unit string) {
		list = append(list, bench.Figure{Bench: "serve", Case: c.Case(), Name: name, Value: value, Unit: unit})
	}
	cpu := func(name string, used time.Duration) {
		add(name+", CPU", used.Seconds(), "s")
		if len(r.Samples) > 0 {
			add(name+", CPU per request", used.Seconds()*1e3/float64(len(r.Samples)), "ms")
		}
		if r.Output > 0 {
			add(name+", CPU per output token", used.Seconds()*1e6/float64(r.Output), "µs")
		}
		if r.Chunks > 0 {
			add(name+", CPU per chunk", used.Seconds()*1e6/float64(r.Chunks), "µs")
		}
	}
	sum, whole := time.Duration(0), true
	for _, p := range r.Processes {
		name := fmt.Sprintf("pid %d", p.PID)
		add(name+", RSS at the start", float64(p.RSSBegin)/(1<<20), "MiB")
		if p.Err != nil {
			whole = false
			continue
		}
		add(name+", RSS at the end", float64(p.RSSEnd)/(1<<20), "MiB")
		cpu(name, p.CPU)
		sum += p.CPU
	}
	if whole && len(r.Processes) > 1 {
		cpu("all pids", sum)
	}
	if r.Client > 0 {
		cpu("client", r.Client)
	}
	return list
}
