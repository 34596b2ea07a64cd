package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
	"github.com/switchyard-llm/switchyard/tools/bench"
	"github.com/switchyard-llm/switchyard/tools/bench/route"
	benchserve "github.com/switchyard-llm/switchyard/tools/bench/serve"
)

// benchServeCmd loads a server.
type benchServeCmd struct {
	URL      string   `help:"The server, any that speaks OpenAI's API." default:"http://127.0.0.1:8000" name:"url"`
	Model    string   `help:"The model; the first that the server lists if empty."`
	APIKey   string   `help:"Sent as a bearer token." name:"api-key" env:"SWITCHYARD_API_KEY"`
	Header   []string `help:"A header to send, too; may be given several times." placeholder:"NAME:VALUE" sep:"none"`
	Endpoint string   `help:"What is asked (${enum})." default:"chat" enum:"chat,completions"`
	Stream   bool     `help:"Ask for a stream of events." default:"true" negatable:""`

	Concurrency int           `help:"Closed loop: so many requests are always under way. Default 1." placeholder:"N"`
	Rate        float64       `help:"Open loop: so many requests arrive in a second, whatever is under way." placeholder:"R"`
	Arrivals    string        `help:"How requests of a --rate arrive (${enum})." default:"poisson" enum:"poisson,fixed"`
	Trace       string        `help:"Replay a trace: a JSON object a line with timestamp (ms), input_length, output_length, hash_ids (one per 512 tokens of the prompt; equal ones are equal text). With --concurrency, in its order but not at its times." placeholder:"FILE"`
	RateScale   float64       `help:"How many times as fast as it was recorded the trace is replayed." default:"1"`
	Requests    int           `help:"End after so many requests. Default 100, or the whole trace, if there is no --duration." placeholder:"N"`
	Duration    time.Duration `help:"Begin no request after this time." placeholder:"TIME"`
	Warmup      int           `help:"Requests that come first and are not measured." placeholder:"N"`
	Timeout     time.Duration `help:"Give a request up after this time; 0 is never." default:"10m"`
	Retry       int           `help:"How often a request that is answered with 429 is sent again after its Retry-After." default:"0"`

	ISL          string   `help:"Length of prompts: a number, uniform:LOW:HIGH, normal:MEAN:DEVIATION or lognormal:MEAN:DEVIATION." default:"200" name:"isl"`
	ISLUnit      string   `help:"What --isl counts (${enum}). How many tokens a word has is measured first." default:"words" enum:"words,tokens" name:"isl-unit"`
	OSL          string   `help:"Length of answers in tokens (max_tokens), like --isl." default:"64" name:"osl"`
	IgnoreEOS    bool     `help:"Ask for answers of the whole length (the extra ignore_eos)." name:"ignore-eos"`
	Temperature  *float64 `help:"0 to 2; the server's default if not given."`
	Text         string   `help:"Words of prompts (${enum}): made up, or runs of an English novel, which npm fetches once." default:"made-up" enum:"made-up,english"`
	PrefixWords  int      `help:"Words before each prompt that it shares with others." default:"0"`
	PrefixGroups int      `help:"How many different such prefixes there are." default:"1"`
	Seed         uint64   `help:"Makes arrivals, lengths and texts." default:"1"`

	SLOTTFT time.Duration `help:"Target of goodput: time to the first token." name:"slo-ttft" placeholder:"TIME"`
	SLOITL  time.Duration `help:"Target of goodput: mean time between a request's other tokens." name:"slo-itl" placeholder:"TIME"`
	PID     []int         `help:"Processes of this machine whose CPU time and memory are measured." name:"pid" placeholder:"PID,..."`
	JSON    bool          `help:"Print one JSON object a line: bench, case, figure, value, unit." name:"json"`
}

// Run implements the command.
func (c *benchServeCmd) Run(ctx context.Context, out io.Writer) error {
	cfg, err := c.config(ctx)
	if err != nil {
		return err
	}
	bar := benchserve.NewBar(os.Stderr)
	cfg.Progress = bar.Show
	result, err := benchserve.Run(ctx, cfg)
	bar.Clear()
	if err != nil {
		return err
	}
	if c.JSON {
		report := bench.JSON(out)
		for _, f := range result.Figures(&cfg) {
			report(f)
		}
	} else if err := result.Print(out, &cfg); err != nil {
		return err
	}
	return c.verdict(result)
}

// verdict is an error where the figures are not what was asked for.
func (c *benchServeCmd) verdict(r *benchserve.Result) error {
	for _, p := range r.Processes {
		if p.Err != nil {
			return fmt.Errorf("read what a process used: %w", p.Err)
		}
	}
	ended := len(r.Samples) + r.Failed()
	switch {
	case r.Interrupted:
		return fmt.Errorf("interrupted: %d requests had ended, %d were under way", ended, r.Unfinished)
	case len(r.Samples) == 0 && ended > 0:
		return fmt.Errorf("all of %d requests failed: %s: %s", ended, r.Faults[0].Kind, r.Faults[0].Message)
	case ended == 0:
		return errors.New("no request arrived within the duration")
	}
	return nil
}

// config reads the flags; benchserve.Run checks what they hold.
func (c *benchServeCmd) config(ctx context.Context) (benchserve.Config, error) {
	cfg := benchserve.Config{
		URL: c.URL, Model: c.Model, APIKey: c.APIKey, Header: http.Header{}, Endpoint: benchserve.Endpoint(c.Endpoint), Stream: c.Stream,
		Concurrency: c.Concurrency, Rate: c.Rate, Arrivals: benchserve.Arrivals(c.Arrivals), RateScale: c.RateScale,
		Requests: c.Requests, Duration: c.Duration, Warmup: c.Warmup, Timeout: c.Timeout, Retry: c.Retry,
		ISLUnit: benchserve.Unit(c.ISLUnit), IgnoreEOS: c.IgnoreEOS, Temperature: c.Temperature,
		PrefixWords: c.PrefixWords, PrefixGroups: c.PrefixGroups, Seed: c.Seed, SLOTTFT: c.SLOTTFT, SLOITL: c.SLOITL, PIDs: c.PID,
	}
	var err error
	if cfg.ISL, err = benchserve.ParseLength(c.ISL); err != nil {
		return cfg, fmt.Errorf("isl is %w", err)
	}
	if cfg.OSL, err = benchserve.ParseLength(c.OSL); err != nil {
		return cfg, fmt.Errorf("osl is %w", err)
	}
	for _, header := range c.Header {
		name, value, ok := strings.Cut(header, ":")
		if !ok || strings.TrimSpace(name) != name || name == "" {
			return cfg, fmt.Errorf("header is %q, want NAME:VALUE", header)
		}
		cfg.Header.Add(name, strings.TrimSpace(value))
	}
	if c.Trace != "" {
		if cfg.Trace, err = readTrace(c.Trace); err != nil {
			return cfg, err
		}
	}
	cfg.Vocabulary, cfg.InOrder, err = c.words(ctx)
	if err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

func readTrace(path string) (*route.Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer file.Close()
	t, err := route.ReadTrace(file)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	return t, nil
}

func (c *benchServeCmd) words(ctx context.Context) (words []string, inOrder bool, err error) {
	if c.Text != "english" {
		const different, bytes = 40_000, 1 << 20
		return strings.Fields(corpus.MadeUp(different, bytes)), false, nil
	}
	const bytes = 1_200_000 // the whole novel
	text, err := corpus.New(func(name string) (string, error) { return testfiles.Path(ctx, name) }).English(bytes)
	if err != nil {
		return nil, false, fmt.Errorf("text english: %w", err)
	}
	return strings.Fields(text), true, nil
}
