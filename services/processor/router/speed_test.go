package router_test

import (
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// spoke reports speeds that differ a little each time, as those of a worker that works.
func spoke(r *router.Router, worker string, times int, running int, s router.Speed) {
	for i := range times {
		s.Step += time.Duration(i % 2)
		r.Report(id(worker), router.Report{Running: running, Speed: s})
	}
}

// A worker that computed one short prompt takes itself for slow. It must get prompts all the same,
// or it never learns better.
func TestASpeedLearntFromLittleStarvesNobody(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, nil, "a", "b", "c")
	for _, n := range []string{"b", "c"} {
		spoke(r, n, 100, 4, router.Speed{PrefillToken: 20 * time.Microsecond, Step: 10 * time.Millisecond})
	}
	spoke(r, "a", 1, 0, router.Speed{PrefillToken: 2500 * time.Microsecond, Step: 40 * time.Millisecond})
	got := map[string]int{}
	for range 300 {
		got[pick(t, r, prompt(1000)).Worker.Name]++
	}
	if got["a"] < 90 {
		t.Errorf("picks %v, want as many for the one that seems slow", got)
	}
}

func TestAWorkerThatStaysSlowGetsLess(t *testing.T) {
	r := newRouter(t, func(c *router.Config) { c.DecodeWeight = 0 })
	others := []string{"b", "c", "d", "e", "f", "g", "h"}
	join(t, r, nil, append(others, "slow")...)
	for range 50 {
		spoke(r, "slow", 2, 4, router.Speed{PrefillToken: 60 * time.Microsecond, Step: 30 * time.Millisecond})
		for _, n := range others {
			spoke(r, n, 2, 4, router.Speed{PrefillToken: 20 * time.Microsecond, Step: 10 * time.Millisecond})
		}
	}
	got := map[string]int{}
	for range 800 {
		got[pick(t, r, prompt(1000)).Worker.Name]++
	}
	if got["slow"] < 25 || got["slow"] > 60 {
		t.Errorf("picks %v, want less than half of the others' 109 for the slow one", got)
	}
}

// Each worker alone takes its steps for as long with any number of sequences.
func TestWhatASequenceAddsIsSeenInWorkersOfDifferentLoads(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, nil, "busy", "calm", "new")
	for range 100 {
		spoke(r, "busy", 2, 40, router.Speed{PrefillToken: time.Microsecond, Step: 50 * time.Millisecond})
		spoke(r, "calm", 2, 10, router.Speed{PrefillToken: time.Microsecond, Step: 20 * time.Millisecond})
	}
	got := explain(t, r, router.Request{Model: model, Tokens: prompt(8), MaxOutput: 1})
	for name, want := range map[string]float64{"busy": 51, "calm": 21, "new": 11} { // 10 + n
		if d := got[name].Terms.Decode; d < want-0.5 || d > want+0.5 {
			t.Errorf("a step of %s is taken to need %.2f ms with the request, want %.0f", name, d, want)
		}
	}
}

// Each worker alone takes its steps for as long whatever they attend to.
func TestWhatATokenAddsIsSeenInWorkersOfDifferentLoads(t *testing.T) {
	r := newRouter(t, nil)
	for _, n := range []string{"few long", "many short", "idle", "new"} {
		if err := r.Add(router.Worker{ID: id(n), Model: model, BlockTokens: 4}); err != nil {
			t.Fatal(err)
		}
		r.Attach(id(n))
	}
	step := func(n, tokens int) router.Speed { // 10 ms, 0.2 for a sequence, 20 ns for a token
		took := 10*time.Millisecond + time.Duration(n)*200*time.Microsecond + time.Duration(tokens)*20
		return router.Speed{PrefillToken: time.Microsecond, Step: took}
	}
	for i := range 100 {
		for name, load := range map[string][2]int{"few long": {5, 400_000}, "many short": {40, 100_000}, "idle": {1, 4000}} {
			s := step(load[0], load[1])
			s.Step += time.Duration(i % 2)
			r.Report(id(name), router.Report{Running: load[0], DecodeTokens: load[1], Speed: s})
		}
	}
	got := explain(t, r, router.Request{Model: model, Tokens: prompt(8), MaxOutput: 1})
	for name, want := range map[string]float64{"few long": 19.2, "many short": 20.2, "idle": 10.5, "new": 10.2} {
		if d := got[name].Terms.Decode; d < want-0.3 || d > want+0.3 {
			t.Errorf("a step of %s is taken to need %.2f ms with the request, want %.1f", name, d, want)
		}
	}
}
