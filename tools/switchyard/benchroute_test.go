package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/tools/bench"
	"github.com/switchyard-llm/switchyard/tools/bench/route"
)

func TestBenchRouteShowsEachPolicy(t *testing.T) {
	code, out, errors := run(t, "bench", "route", "--synthetic", "200", "--workers", "2", "--pool-blocks", "3000")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errors)
	}
	for _, policy := range []string{"pooled", "round-robin", "random", "least-loaded", "power-of-two", "dynamo", "kv"} {
		if !strings.Contains(out, policy+" ") {
			t.Errorf("%s is not in\n%s", policy, out)
		}
	}
}

func TestBenchRoutePrintsFigures(t *testing.T) {
	code, out, errors := run(t, "bench", "route", "--synthetic", "300", "--workers", "1", "--load", "0.5,0.8", "--policy", "kv", "--json")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errors)
	}
	seen := map[string]int{}
	for line := range strings.Lines(out) {
		var f bench.Figure
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Bench != "route" || f.Case == "" {
			t.Fatalf("%s: %v", line, err)
		}
		seen[f.Name]++
	}
	for name, want := range map[string]int{"rate": 1, "reuse": 4, "TTFT, p99": 2, "ITL, p50": 2, "E2E, mean": 2, "goodput": 2, "imbalance": 2, "decisions": 2} {
		if seen[name] != want {
			t.Errorf("%d figures %q, want %d", seen[name], name, want)
		}
	}
}

func TestBenchRouteSaysWhatIsWrong(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(bad, []byte(`{"timestamp": 0, "input_length": 9, "output_length": 0, "hash_ids": [1]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "neither --trace nor --synthetic"},
		{[]string{"--trace", "x", "--synthetic", "3"}, "can't be used together"},
		{[]string{"--trace", filepath.Join(t.TempDir(), "none")}, "no such file"},
		{[]string{"--trace", bad}, "line 1: output_length: 0, want 1"},
		{[]string{"--synthetic=-1"}, "synthetic: -1 requests"},
		{[]string{"--synthetic", "9", "--policy", "best"}, "--policy"},
		{[]string{"--synthetic", "9", "--workers", "0"}, "workers is 0, want 1"},
		{[]string{"--synthetic", "9", "--block-tokens", "33"}, "block-tokens is 33, want a divisor"},
		{[]string{"--synthetic", "9", "--pool-blocks", "3"}, "pool-blocks is 3, want at least"},
		{[]string{"--synthetic", "9", "--rate", "NaN"}, "rate is NaN"},
		{[]string{"--synthetic", "9", "--load", "0"}, "load is 0"},
		{[]string{"--synthetic", "9", "--saturation=-1"}, "saturation is -1"},
		{[]string{"--synthetic", "9", "--share", "soon"}, `share is "soon"`},
		{[]string{"--synthetic", "9", "--share=-1ns"}, `share is "-1ns"`},
		{[]string{"--synthetic", "9", "--ttft", "0s"}, "ttft is 0s"},
		{[]string{"--synthetic", "9", "--prefill-weight", "NaN"}, "prefill-weight is NaN"},
		{[]string{"--synthetic", "9", "--temperature=-1"}, "temperature is -1"},
	} {
		code, _, errors := run(t, append([]string{"bench", "route"}, c.args...)...)
		if code == 0 || !strings.Contains(errors, c.want) {
			t.Errorf("%v: code %d, %q, want %q", c.args, code, errors, c.want)
		}
	}
}

func TestBenchRouteDefaultsAreTheProducts(t *testing.T) {
	var c commands
	parser, err := kong.New(&c, kong.Vars{"data": "", "model": "", "tokenizers": ""})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"bench", "route", "--synthetic", "9"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(route.DefaultKV(), c.Bench.Route.kv()); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
	got, err := c.Bench.Route.config()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(route.DefaultConfig(), got); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
}

func TestReplayBarIsQuietAtFirst(t *testing.T) {
	var out strings.Builder
	b := &replayBar{w: &out, total: 200, task: "kv", begin: time.Now()}
	b.show(10)
	b.clear()
	if out.Len() > 0 {
		t.Errorf("it shows %q at once", out.String())
	}
	b.begin = b.begin.Add(-barAfter)
	b.show(50)
	b.show(51)
	b.clear()
	if want := "\r\x1b[Kreplaying kv: 25 %\r\x1b[K"; out.String() != want {
		t.Errorf("it shows %q, want %q", out.String(), want)
	}
}
