package serve

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestErrorsNameTheFlag(t *testing.T) {
	if cfg := config(); cfg.Validate() != nil {
		t.Fatalf("the default: %v", cfg.Validate())
	}
	nan, cold := math.NaN(), -1.0
	for want, change := range map[string]func(*Config){
		`url is "localhost:8000"`:        func(c *Config) { c.URL = "localhost:8000" },
		`url is "ftp://x"`:               func(c *Config) { c.URL = "ftp://x" },
		`url is "http://a b"`:            func(c *Config) { c.URL = "http://a b" },
		"endpoint is":                    func(c *Config) { c.Endpoint = "embeddings" },
		"timeout is -1s":                 func(c *Config) { c.Timeout = -time.Second },
		"rate and trace":                 func(c *Config) { c.Rate, c.Trace = 1, trace(t) },
		"rate and concurrency":           func(c *Config) { c.Rate, c.Concurrency = 1, 1 },
		"rate is -1":                     func(c *Config) { c.Rate = -1 },
		"rate is NaN":                    func(c *Config) { c.Rate = nan },
		"arrivals is":                    func(c *Config) { c.Arrivals = "bursts" },
		"rate-scale is 0":                func(c *Config) { c.RateScale = 0 },
		"rate-scale is given":            func(c *Config) { c.RateScale = 2 },
		"rate-scale is given, which":     func(c *Config) { c.RateScale, c.Trace, c.Concurrency = 2, trace(t), 1 },
		"concurrency is -1":              func(c *Config) { c.Concurrency = -1 },
		"concurrency is 65537":           func(c *Config) { c.Concurrency = 65537 },
		"requests is -1":                 func(c *Config) { c.Requests = -1 },
		"duration is -1s":                func(c *Config) { c.Duration = -time.Second },
		"warmup is -1":                   func(c *Config) { c.Warmup = -1 },
		"retry is -1":                    func(c *Config) { c.Retry = -1 },
		"isl is 0":                       func(c *Config) { c.ISL = FixedLength(0) },
		"osl is 1048577":                 func(c *Config) { c.OSL = FixedLength(maxLength + 1) },
		"isl is 1.5, want a whole":       func(c *Config) { c.ISL = Length{shape: "fixed", a: 1.5} },
		"isl is NaN":                     func(c *Config) { c.ISL = Length{shape: "normal", a: nan} },
		"osl is uniform from 9 to 3":     func(c *Config) { c.OSL = Length{shape: "uniform", a: 9, b: 3} },
		"osl has a deviation of -1":      func(c *Config) { c.OSL = Length{shape: "lognormal", a: 9, b: -1} },
		`isl is of shape "pareto"`:       func(c *Config) { c.ISL = Length{shape: "pareto", a: 9} },
		"isl-unit is":                    func(c *Config) { c.ISLUnit = "bytes" },
		"no words":                       func(c *Config) { c.Vocabulary = nil },
		"temperature is -1":              func(c *Config) { c.Temperature = &cold },
		"prefix-words is -1":             func(c *Config) { c.PrefixWords = -1 },
		"prefix-groups is 0":             func(c *Config) { c.PrefixGroups = 0 },
		"slo-ttft is -1s":                func(c *Config) { c.SLOTTFT = -time.Second },
		"slo-itl is -1s":                 func(c *Config) { c.SLOITL = -time.Second },
		"slo-ttft and slo-itl want stre": func(c *Config) { c.SLOITL, c.Stream = 1, false },
		"pid is 0":                       func(c *Config) { c.PIDs = []int{0} },
	} {
		cfg := config()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	for _, text := range []string{"", "x", "uniform", "uniform:1", "normal:1:x", "uniform:1:2:3", "-"} {
		if l, err := ParseLength(text); err == nil {
			t.Errorf("%q is %+v", text, l)
		}
	}
}

func TestARunHasAnEnd(t *testing.T) {
	for _, c := range []struct {
		change                func(*Config)
		concurrency, requests int
		name                  string
	}{
		{func(*Config) {}, 1, 100, "concurrency 1"},
		{func(c *Config) { c.Rate = 3 }, 0, 100, "rate 3"},
		{func(c *Config) { c.Duration = 1 }, 1, 0, "concurrency 1"},
		{func(c *Config) { c.Trace, c.RateScale = trace(t), 2 }, 0, 4, "trace at 2"},
		{func(c *Config) { c.Trace, c.Requests = trace(t), 3 }, 0, 3, "trace at 1"},
		{func(c *Config) { c.Trace, c.Concurrency, c.Requests = trace(t), 2, 9 }, 2, 4, "concurrency 2"},
	} {
		cfg := config()
		c.change(&cfg)
		if got := cfg.complete(); got.Concurrency != c.concurrency || got.Requests != c.requests || cfg.Case() != c.name {
			t.Errorf("%s: concurrency %d, %d requests, want %s: %d, %d", cfg.Case(), got.Concurrency, got.Requests, c.name, c.concurrency, c.requests)
		}
	}
}
