package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/switchyard-llm/switchyard/tools/bench"
	"github.com/switchyard-llm/switchyard/tools/bench/route"
)

// benchRouteCmd replays a trace in virtual time.
type benchRouteCmd struct {
	Trace          string    `help:"A JSON object a line: timestamp (ms), input_length, output_length, hash_ids (one per 512 tokens of the prompt)." placeholder:"FILE" xor:"trace"`
	Synthetic      int       `help:"Instead of a trace, so many generated requests of conversations." placeholder:"N" xor:"trace"`
	Policy         []string  `help:"Policies to compare (${enum}); all by default." enum:"round-robin,random,least-loaded,power-of-two,dynamo,exact,kv"`
	Rate           float64   `help:"How many times as fast as it was recorded the trace is replayed." default:"1"`
	Load           []float64 `help:"Instead of a rate, shares of the rate of saturation, like 0.5,0.8,0.95." placeholder:"SHARE,..."`
	Saturation     float64   `help:"The rate of saturation, for --load; found if not given." placeholder:"RATE"`
	FindSaturation bool      `help:"Only find the rate of saturation: the highest at which the better of round-robin and least-loaded keeps the p99 of TTFT below 5 s."`

	Workers     int           `help:"Simulated workers." default:"8"`
	PoolBlocks  int           `help:"Blocks of each worker's pool." default:"32000"`
	BlockTokens int           `help:"Tokens of a block, a divisor of 512." default:"32"`
	PassTokens  int           `help:"Prompt tokens of a pass, at most." default:"8192"`
	MaxRunning  int           `help:"Sequences that a worker runs at once, at most." default:"256"`
	ReportEvery time.Duration `help:"How often workers report their load; 0 is after each pass." default:"0s"`
	Processors  int           `help:"Routers that share the requests in turn." default:"1"`
	Share       string        `help:"How long it takes until a router knows of the others' bookings: a duration, or never." default:"0s"`
	Seed        uint64        `help:"Seed of arrivals and draws." default:"1"`
	TTFT        time.Duration `help:"Target of goodput: time to the first token." default:"2s" name:"ttft"`
	ITL         time.Duration `help:"Target of goodput: mean time between a request's other tokens." default:"50ms" name:"itl"`

	PrefillWeight float64 `help:"kv: weight of the prefill time of the request's uncached tokens." default:"4"`
	DecodeWeight  float64 `help:"kv: weight of the decode term." default:"0.1"`
	StallWeight   float64 `help:"kv: weight of that prefill time for each sequence that generates there." default:"0.01"`
	Decode        string  `help:"kv: form of the decode term (${enum})." default:"own" enum:"step,own,others"`
	Temperature   float64 `help:"kv: how random the choice is; 0 takes the lowest cost." default:"0"`
	PendingCredit float64 `help:"kv: how much of a block counts as resident that a worker is about to compute." default:"1"`
	Speeds        string  `help:"kv: what workers report of their speed (${enum}): lines through the timing model, or what the product's learner makes of the passes." default:"learned" enum:"learned,fitted"`
	JSON          bool    `help:"Print one JSON object a line: bench, case, figure, value, unit." name:"json"`
}

// Run implements the command.
func (c *benchRouteCmd) Run(ctx context.Context, out io.Writer) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	t, err := c.read()
	if err != nil {
		return err
	}
	report := newRouteReport(out, c.JSON)
	bar := newReplayBar(os.Stderr, len(t.Requests))
	defer bar.clear()
	rates, err := c.rates(ctx, t, cfg, report, bar)
	if err != nil || c.FindSaturation {
		return err
	}
	pooled, err := route.Pooled(t, cfg)
	if err != nil {
		return err
	}
	for _, rate := range rates {
		cfg.Rate = rate
		report.begin(rate, pooled)
		for _, name := range c.policies() {
			bar.task = fmt.Sprintf("%s at rate %.3f", name, rate)
			result, err := route.Run(ctx, t, cfg, name, c.kv(), bar.show)
			if err != nil {
				return err
			}
			bar.clear()
			report.result(result)
		}
		if err := report.end(); err != nil {
			return err
		}
	}
	return nil
}

// rates are those at which the trace is replayed.
func (c *benchRouteCmd) rates(ctx context.Context, t *route.Trace, cfg route.Config, report *routeReport, bar *replayBar) ([]float64, error) {
	if !c.FindSaturation && len(c.Load) == 0 {
		return []float64{c.Rate}, nil
	}
	saturation := c.Saturation
	if saturation == 0 {
		bar.task = "finding the rate of saturation"
		found, err := route.Saturation(ctx, t, cfg, bar.show)
		if err != nil {
			return nil, fmt.Errorf("find the rate of saturation: %w", err)
		}
		bar.clear()
		report.saturation(found)
		saturation = found
	}
	var rates []float64
	for _, share := range c.Load {
		rates = append(rates, share*saturation)
	}
	return rates, nil
}

func (c *benchRouteCmd) policies() []string {
	if len(c.Policy) > 0 {
		return c.Policy
	}
	return route.Policies()
}

func (c *benchRouteCmd) kv() route.KVConfig {
	return route.KVConfig{
		PrefillWeight: c.PrefillWeight, DecodeWeight: c.DecodeWeight, StallWeight: c.StallWeight, Decode: route.DecodeForm(c.Decode),
		Temperature: c.Temperature, PendingCredit: c.PendingCredit, Speeds: route.SpeedSource(c.Speeds),
	}
}

// config checks the flags.
func (c *benchRouteCmd) config() (route.Config, error) {
	cfg := route.DefaultConfig()
	cfg.Workers, cfg.PoolBlocks, cfg.BlockTokens = c.Workers, c.PoolBlocks, c.BlockTokens
	cfg.PassTokens, cfg.MaxRunning = c.PassTokens, c.MaxRunning
	cfg.Rate, cfg.Seed, cfg.ReportEvery, cfg.Processors = c.Rate, c.Seed, c.ReportEvery, c.Processors
	cfg.TTFT, cfg.ITL, cfg.Share = c.TTFT, c.ITL, route.Never
	if c.Share != "never" {
		var err error
		if cfg.Share, err = time.ParseDuration(c.Share); err != nil || cfg.Share < 0 {
			return cfg, fmt.Errorf("share is %q, want a duration of at least 0, or never", c.Share)
		}
	}
	for _, share := range c.Load {
		if !(share > 0 && share <= 10) { // not a number is neither
			return cfg, fmt.Errorf("load is %v, want more than 0 and at most 10: shares of the rate of saturation", share)
		}
	}
	if !(c.Saturation >= 0) {
		return cfg, fmt.Errorf("saturation is %v, want more than 0", c.Saturation)
	}
	return cfg, errors.Join(cfg.Validate(), c.kv().Validate())
}

func (c *benchRouteCmd) read() (*route.Trace, error) {
	if c.Trace == "" && c.Synthetic == 0 {
		return nil, errors.New("neither --trace nor --synthetic is given, want one of them")
	}
	if c.Trace == "" {
		t, err := route.Synthetic(c.Synthetic, c.Seed)
		if err != nil {
			return nil, fmt.Errorf("synthetic: %w", err)
		}
		return t, nil
	}
	file, err := os.Open(c.Trace)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer file.Close()
	t, err := route.ReadTrace(file)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", c.Trace, err)
	}
	return t, nil
}

// figures are a result's in the form that benchmarks print.
func figures(rate float64, s route.Result) []bench.Figure {
	var list []bench.Figure
	add := func(name string, value float64, unit string) {
		list = append(list, bench.Figure{Bench: "route", Case: fmt.Sprintf("%s, rate %.4g", s.Policy, rate), Name: name, Value: value, Unit: unit})
	}
	add("reuse", s.Reuse, "")
	for _, t := range []struct {
		name  string
		times route.Times
	}{{"TTFT", s.TTFT}, {"ITL", s.ITL}, {"E2E", s.EndToEnd}} {
		add(t.name+", mean", t.times.Mean.Seconds(), "s")
		add(t.name+", p50", t.times.P50.Seconds(), "s")
		add(t.name+", p99", t.times.P99.Seconds(), "s")
	}
	add("offered", s.Offered, "requests/s")
	add("goodput", s.Goodput, "requests/s")
	add("met", s.Met, "")
	add("imbalance", s.Imbalance, "")
	add("imbalance of prompts", s.PromptImbalance, "")
	add("busy", s.Busy, "")
	add("decisions", s.Decisions, "1/s")
	return list
}
