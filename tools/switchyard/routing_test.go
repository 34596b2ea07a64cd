package main

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// A weight that the command did not know could only be changed by hand, in etcd.
func TestRoutingSetsEveryWeight(t *testing.T) {
	fields := reflect.TypeFor[router.Weights]()
	for i := range fields.NumField() {
		key := fields.Field(i).Tag.Get("json")
		if key == "policy" {
			continue
		}
		var c routingCmd
		parser, err := kong.New(&c, kong.Vars{"data": ""})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse([]string{"--" + strings.ReplaceAll(key, "_", "-"), "0.5"}); err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if got := c.changes(); len(got) != 1 || got[key] != 0.5 {
			t.Errorf("%s is not changed: %v", key, got)
		}
	}
}

func TestWeightsAreCheckedBeforeTheyAreSet(t *testing.T) {
	for _, c := range []struct {
		live map[string]any
		want string
	}{
		{map[string]any{"policy": "session", "prefill_weight": 2.}, ""},
		{map[string]any{"policy": "whim"}, "want one of"},
		{map[string]any{"host_credit": 2.}, "host_credit is 2"},
		{map[string]any{"temperature": math.NaN()}, "cannot be written"},
	} {
		err := checkWeights(c.live)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.live, err, c.want)
		}
	}
}

func TestARouteShowsAllThatItsCostIsMadeOf(t *testing.T) {
	var out strings.Builder
	err := printRoute(&out, &processorv1.ExplainRouteResponse{
		PromptTokens: 7, Policy: "kv", PrefillWeight: 2, DecodeWeight: 3, StallWeight: 5,
		Candidates: []*processorv1.Candidate{{Worker: "w", Cost: 1111, Prefill: 100, Queue: 11, Decode: 200, Stall: 60}},
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if want := "cost = 2 · prefill + queue + 3 · decode + 5 · stall"; !strings.HasSuffix(lines[0], want) {
		t.Errorf("%q, want it to end with %q", lines[0], want)
	}
	if got, want := fmt.Sprint(strings.Fields(lines[2])[:6]), "[w 1111.0 100.0 11.0 200.0 60.0]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
