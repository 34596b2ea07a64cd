package route

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
)

// plain takes 1 ms for each prompt token, and 10 ms for a pass that generates.
type plain struct{}

func (plain) Step(s timing.Step) time.Duration {
	took := time.Duration(s.PromptTokens) * time.Millisecond
	if s.Decoding > 0 {
		took += 10 * time.Millisecond
	}
	return took
}

// small is a cluster whose times can be computed by hand.
func small(workers int) Config {
	cfg := DefaultConfig()
	cfg.Workers, cfg.PoolBlocks, cfg.PassTokens, cfg.Timing = workers, 100, 512, plain{}
	return cfg
}

// request arrives whenever the test says.
func request(index, input, output int, runs ...int32) Request {
	return Request{InputTokens: input, OutputTokens: output, Runs: runs, index: index}
}

const ms = time.Millisecond

// replayed runs requests that arrive at these times, and gives back what became of them.
func replayed(t *testing.T, cfg Config, policy string, at []time.Duration, requests ...Request) *replay {
	t.Helper()
	trace := &Trace{Requests: requests, Runs: 16}
	build, err := makerOf(policy, DefaultKV())
	if err != nil {
		t.Fatal(err)
	}
	r, err := newReplay(trace, cfg, build)
	if err != nil {
		t.Fatal(err)
	}
	r.arrivals = at
	if err := r.run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return r
}

type outcome struct {
	Worker                int
	Started, First, Ended time.Duration
	Hit                   int
}

func outcomes(r *replay) []outcome {
	var list []outcome
	for i := range r.sequences {
		s := &r.sequences[i]
		list = append(list, outcome{s.booking.Worker, s.started, s.first, s.ended, s.hit})
	}
	return list
}

func TestPassesTakeWhatTheyCompute(t *testing.T) {
	for _, c := range []struct {
		name     string
		cfg      func(*Config)
		at       []time.Duration
		requests []Request
		want     []outcome
		gaps     Times
	}{
		{
			// 512 tokens to 512 ms; 88 and 88 to 688 ms, the second request's first run being there by
			// then; then both generate to 698 ms, and one of them to 708.
			name: "a prefix that another one has computed", at: []time.Duration{0, 100 * ms},
			requests: []Request{request(0, 600, 3, 0, 1), request(1, 600, 2, 0, 2)},
			want:     []outcome{{0, 0, 688 * ms, 708 * ms, 0}, {0, 512 * ms, 688 * ms, 698 * ms, 512}},
			gaps:     Times{Mean: 10 * ms, P50: 10 * ms, P99: 10 * ms},
		},
		{
			// The same prompt at the same time: the first pass computes 300 tokens, and 212 of the other one.
			name: "a prefix that is being computed is none", at: []time.Duration{0, 0},
			requests: []Request{request(0, 300, 1, 0), request(1, 300, 1, 0)},
			want:     []outcome{{0, 0, 300 * ms, 300 * ms, 0}, {0, 300 * ms, 312 * ms, 312 * ms, 288}},
		},
		{
			// 512 tokens are 16 blocks, of which the last one is computed again for its last token.
			name: "the last token is always computed", at: []time.Duration{0, 600 * ms},
			requests: []Request{request(0, 512, 1, 0), request(1, 512, 1, 0)},
			want:     []outcome{{0, 0, 512 * ms, 512 * ms, 0}, {0, 600 * ms, 632 * ms, 632 * ms, 480}},
		},
		{
			// 330 tokens are 11 blocks, 300 are 10, and there are 20: the second waits for the end of the first.
			name: "no room in the pool", cfg: func(c *Config) { c.PoolBlocks = 20 }, at: []time.Duration{0, 1 * ms},
			requests: []Request{request(0, 326, 4, 0), request(1, 100, 200, 1)},
			want:     []outcome{{0, 0, 326 * ms, 356 * ms, 0}, {0, 356 * ms, 456 * ms, 456*ms + 199*10*ms, 0}},
			gaps:     Times{Mean: 10 * ms, P50: 10 * ms, P99: 10 * ms},
		},
		{
			name: "as many as may run", cfg: func(c *Config) { c.MaxRunning = 1 }, at: []time.Duration{0, 1 * ms},
			requests: []Request{request(0, 10, 3, 0), request(1, 10, 1, 1)},
			want:     []outcome{{0, 0, 10 * ms, 30 * ms, 0}, {0, 30 * ms, 40 * ms, 40 * ms, 0}},
			gaps:     Times{Mean: 10 * ms, P50: 10 * ms, P99: 10 * ms},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := small(1)
			if c.cfg != nil {
				c.cfg(&cfg)
			}
			r := replayed(t, cfg, "round-robin", c.at, c.requests...)
			if diff := cmp.Diff(c.want, outcomes(r)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.gaps, gapTimes(r.gaps)); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResultSumsUp(t *testing.T) {
	cfg := small(2)
	cfg.TTFT, cfg.ITL = 600*ms, 10*ms
	// Worker 0 computes 600 tokens to 600 ms in two passes and generates to 620; worker 1 computes 400
	// from 500 to 900 ms and generates one more.
	r := replayed(t, cfg, "round-robin", []time.Duration{0, 500 * ms}, request(0, 600, 3, 0, 1), request(1, 400, 2, 2))
	got := r.result("round-robin")
	got.Decisions = 0
	want := Result{
		Policy: "round-robin", Requests: 2, Passes: 6,
		TTFT: Times{500 * ms, 600 * ms, 600 * ms}, ITL: Times{10 * ms, 10 * ms, 10 * ms}, EndToEnd: Times{515 * ms, 620 * ms, 620 * ms},
		Goodput: 4, Met: 1, Offered: 4,
		Imbalance: 620.0 / 515, Busy: 515.0 / 910, PromptImbalance: 1.2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	cfg.TTFT = 599 * ms
	r = replayed(t, cfg, "round-robin", []time.Duration{0, 500 * ms}, request(0, 600, 3, 0, 1), request(1, 400, 2, 2))
	if got := r.result(""); got.Met != 0.5 {
		t.Errorf("with a target of %v, %v of the requests met it, want half", cfg.TTFT, got.Met)
	}
}

// synthetic is a trace of conversations.
func synthetic(t testing.TB, requests int, seed uint64) *Trace {
	t.Helper()
	trace, err := Synthetic(requests, seed)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// tight is a cluster whose pools are too small for the synthetic trace.
func tight() Config {
	cfg := DefaultConfig()
	cfg.Workers, cfg.PoolBlocks, cfg.Rate = 4, 4000, 2
	return cfg
}

func TestTheSameTraceGivesTheSameFigures(t *testing.T) {
	trace := synthetic(t, 300, 1)
	for _, policy := range Policies() {
		for _, processors := range []int{1, 3} {
			cfg := tight()
			cfg.Processors, cfg.Share = processors, 5*ms
			var results [2]Result
			for i := range results {
				var err error
				if results[i], err = Run(t.Context(), trace, cfg, policy, DefaultKV(), nil); err != nil {
					t.Fatal(err)
				}
				results[i].Decisions = 0
			}
			if diff := cmp.Diff(results[0], results[1]); diff != "" {
				t.Errorf("%s with %d processors, first and second time:\n%s", policy, processors, diff)
			}
			cfg.Seed = 2
			other, err := Run(t.Context(), trace, cfg, policy, DefaultKV(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if other.TTFT == results[0].TTFT {
				t.Errorf("%s: another seed gives the same times %+v", policy, other.TTFT)
			}
		}
	}
}

// Random traces on random clusters: nothing is lost, nothing happens before its time, and
// at the end every pool holds only what nobody uses.
func TestEveryRequestEnds(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 9))
		cfg := DefaultConfig()
		cfg.Workers, cfg.PoolBlocks, cfg.MaxRunning = 1+random.IntN(5), 2500+random.IntN(4000), 1+random.IntN(40)
		cfg.PassTokens, cfg.Rate, cfg.Seed = 100+random.IntN(5000), 1+9*random.Float64(), seed
		cfg.ReportEvery = time.Duration(random.IntN(2)) * 100 * ms
		cfg.Processors, cfg.Share = 1+random.IntN(3), time.Duration(random.IntN(3)-1)
		policy := Policies()[random.IntN(len(Policies()))]
		build, err := makerOf(policy, DefaultKV())
		if err != nil {
			t.Fatal(err)
		}
		r, err := newReplay(synthetic(t, 200, seed), cfg, build)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.run(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for i := range r.sequences {
			s := &r.sequences[i]
			if s.started < s.arrived || s.first <= s.started || s.ended < s.first || s.computed != s.request.InputTokens || s.hit >= s.computed {
				t.Fatalf("seed %d, %s: request %d ended as %+v", seed, policy, i, *s)
			}
		}
		for i, w := range r.workers {
			if w.cache.used != 0 || w.context != 0 || w.remaining != 0 || w.unstarted != 0 {
				t.Errorf("seed %d, %s: worker %d is left with %+v", seed, policy, i, w.report())
			}
			checkCache(t, w.cache, r.trace)
		}
	}
}

func TestRunStopsWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, synthetic(t, 10, 1), tight(), "kv", DefaultKV(), nil); err != context.Canceled {
		t.Errorf("the error is %v", err)
	}
}

// A unit is a request of the synthetic trace.
func BenchmarkReplay(b *testing.B) {
	trace := synthetic(b, 2000, 1)
	for _, policy := range Policies() {
		b.Run(policy, func(b *testing.B) {
			for b.Loop() {
				if _, err := Run(b.Context(), trace, DefaultConfig(), policy, DefaultKV(), nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(trace.Requests)), "ns/request")
		})
	}
}
