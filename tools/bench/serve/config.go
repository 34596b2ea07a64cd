package serve

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/switchyard-llm/switchyard/tools/bench/route"
)

// Endpoint is what is asked.
type Endpoint string

// The endpoints.
const (
	Chat        Endpoint = "chat"
	Completions Endpoint = "completions"
)

// Arrivals is how requests of an open loop are spread.
type Arrivals string

// The ways to arrive: as from many users who do not know of each other, or evenly.
const (
	Poisson Arrivals = "poisson"
	Fixed   Arrivals = "fixed"
)

// Unit is what lengths of prompts are counted in.
type Unit string

// The units. How many tokens a word has is measured with two requests before the run.
const (
	Words  Unit = "words"
	Tokens Unit = "tokens"
)

// Config says what Run does. DefaultConfig gives a complete one; names in errors are those
// of the flags.
type Config struct {
	// URL is the server, with or without /v1.
	URL string
	// Model is the first one that the server lists if empty.
	Model string
	// APIKey is sent as a bearer token if set.
	APIKey string
	// Header is sent as well.
	Header   http.Header
	Endpoint Endpoint
	Stream   bool

	// Concurrency is how many requests are under way in a closed loop; 0 with Rate, and with a
	// trace that keeps its own times.
	Concurrency int
	// Rate is requests per second of an open loop.
	Rate     float64
	Arrivals Arrivals
	// Requests and Duration end the run, whichever is first; 0 is no end. If both are 0, a
	// trace ends it, else 100 requests.
	Requests int
	Duration time.Duration
	// Warmup requests come first and are not measured.
	Warmup int
	// Timeout of one request; 0 is none.
	Timeout time.Duration
	// Retry is how often a request that is answered with 429 is sent again after the
	// Retry-After of the answer.
	Retry int

	// ISL and OSL are lengths of prompts, in ISLUnit, and of answers, in tokens.
	ISL, OSL Length
	ISLUnit  Unit
	// PrefixWords come first in each prompt; so many PrefixGroups share theirs.
	PrefixWords, PrefixGroups int
	// Vocabulary is what prompts are made of. InOrder takes runs of it, as of prose, in
	// place of words by chance.
	Vocabulary []string
	InOrder    bool
	Seed       uint64
	// IgnoreEOS and Temperature are sent only if they are set.
	IgnoreEOS   bool
	Temperature *float64

	// Trace gives times and lengths in place of Rate, ISL and OSL.
	Trace *route.Trace
	// RateScale is how many times as fast as recorded the trace is replayed.
	RateScale float64

	// SLOTTFT and SLOITL are the targets of goodput; 0 is none.
	SLOTTFT, SLOITL time.Duration
	// PIDs are processes of this machine whose CPU time is measured.
	PIDs []int
	// Progress is called by one goroutine, some times a second; nil is not.
	Progress func(Progress)
}

// Progress is how far a run has come.
type Progress struct {
	Warming       bool
	Ended, Failed int
	// Share is 0 to 1.
	Share   float64
	Elapsed time.Duration
}

// DefaultConfig is a chat of 200 words and 64 tokens at a time, but for the vocabulary.
func DefaultConfig() Config {
	return Config{
		URL: "http://127.0.0.1:8000", Endpoint: Chat, Stream: true, Arrivals: Poisson, Timeout: 10 * time.Minute,
		ISL: FixedLength(200), OSL: FixedLength(64), ISLUnit: Words, PrefixGroups: 1, Seed: 1, RateScale: 1,
	}
}

const (
	maxConcurrency     = 1 << 16
	maxRate            = 1e6
	defaultRequests    = 100
	maxRequests        = 1 << 31
	maxPrefixWords     = maxLength
	maxDuration        = 365 * 24 * time.Hour
	maxRetry           = 1000
	maxRetryAfter      = time.Minute
	defaultConcurrency = 1
)

// Validate reports fields that are out of range, or do not go together.
func (c *Config) Validate() error {
	return errors.Join(c.validateServer(), c.validateLoad(), c.validatePrompts(), c.validateTargets())
}

func (c *Config) validateServer() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return fmt.Errorf("url is %q: %w", c.URL, err)
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return fmt.Errorf("url is %q, want one like http://127.0.0.1:8000", c.URL)
	case c.Endpoint != Chat && c.Endpoint != Completions:
		return fmt.Errorf("endpoint is %q, want chat or completions", c.Endpoint)
	}
	return within("timeout", c.Timeout, 0, maxDuration)
}

func (c *Config) validateLoad() error {
	switch {
	case c.Rate != 0 && c.Trace != nil:
		return errors.New("rate and trace are given, want one of them: a trace has its own times, and rate-scale")
	case c.Rate != 0 && c.Concurrency != 0:
		return errors.New("rate and concurrency are given, want one of them")
	case !(c.Rate >= 0 && c.Rate <= maxRate): // not a number is neither
		return fmt.Errorf("rate is %v, want more than 0 and at most %v", c.Rate, maxRate)
	case c.Arrivals != Poisson && c.Arrivals != Fixed:
		return fmt.Errorf("arrivals is %q, want poisson or fixed", c.Arrivals)
	case !(c.RateScale > 0 && c.RateScale <= maxRate):
		return fmt.Errorf("rate-scale is %v, want more than 0 and at most %v", c.RateScale, maxRate)
	case c.RateScale != 1 && (c.Trace == nil || c.Concurrency != 0):
		return errors.New("rate-scale is given, which wants a trace that is replayed at its own times")
	}
	return errors.Join(
		within("concurrency", c.Concurrency, 0, maxConcurrency), within("requests", c.Requests, 0, maxRequests),
		within("duration", c.Duration, 0, maxDuration), within("warmup", c.Warmup, 0, maxRequests), within("retry", c.Retry, 0, maxRetry),
	)
}

func (c *Config) validatePrompts() error {
	switch {
	case c.ISLUnit != Words && c.ISLUnit != Tokens:
		return fmt.Errorf("isl-unit is %q, want words or tokens", c.ISLUnit)
	case len(c.Vocabulary) == 0:
		return errors.New("there are no words to make prompts of")
	case c.Temperature != nil && !(*c.Temperature >= 0 && *c.Temperature <= 2):
		return fmt.Errorf("temperature is %v, want 0 to 2", *c.Temperature)
	}
	return errors.Join(c.ISL.validate("isl"), c.OSL.validate("osl"),
		within("prefix-words", c.PrefixWords, 0, maxPrefixWords), within("prefix-groups", c.PrefixGroups, 1, maxRequests))
}

func (c *Config) validateTargets() error {
	if !c.Stream && (c.SLOTTFT != 0 || c.SLOITL != 0) {
		return errors.New("slo-ttft and slo-itl want stream: without it, there are no times of tokens")
	}
	for _, pid := range c.PIDs {
		if err := within("pid", pid, 1, 1<<30); err != nil {
			return err
		}
	}
	return errors.Join(within("slo-ttft", c.SLOTTFT, 0, maxDuration), within("slo-itl", c.SLOITL, 0, maxDuration))
}

func within[T int | time.Duration](name string, value, low, high T) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %v, want %v to %v", name, value, low, high)
	}
	return nil
}

// complete fills in what depends on other fields.
func (c Config) complete() Config {
	if c.Rate == 0 && c.Trace == nil && c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.Trace != nil {
		all := len(c.Trace.Requests)
		if c.Requests == 0 || c.Requests > all {
			c.Requests = all
		}
	}
	if c.Requests == 0 && c.Duration == 0 {
		c.Requests = defaultRequests
	}
	return c
}
