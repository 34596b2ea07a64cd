package disagg

import (
	"math/rand/v2"
	"testing"
	"time"
)

// randomFacts are any that can be, most of them near a decision.
func randomFacts(r *rand.Rand) Facts {
	duration := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }
	prompt := 1 + r.IntN(1<<r.IntN(14)+1)
	return Facts{
		PromptTokens: prompt, CachedTokens: r.IntN(prompt), OfferedTokens: r.IntN(4096), RowBytes: 1 << r.IntN(20),
		PrefillWorkers: r.IntN(5), Queue: Queue{Known: r.IntN(10) > 0, Waiting: r.IntN(1 << r.IntN(6)), Working: r.IntN(8), Oldest: duration(time.Second)},
		AheadTokens: r.IntN(1 << r.IntN(12)), Decoding: r.IntN(1 << r.IntN(7)), StepTokens: 16 << r.IntN(8),
		Deadline: duration(time.Minute) * time.Duration(r.IntN(2)),
		Speeds: Speeds{
			LocalToken: duration(10 * time.Millisecond), RemoteToken: duration(10 * time.Millisecond),
			Step: duration(20 * time.Millisecond), StepSequence: duration(10 * time.Millisecond),
			LocalOverhead: duration(50 * time.Millisecond), RemoteOverhead: duration(200 * time.Millisecond), Admission: duration(10 * time.Millisecond),
			Job: duration(500 * time.Millisecond), LinkBytesPerSecond: float64(int64(1) << (20 + r.IntN(16))), LinkLatency: duration(5 * time.Millisecond), WriteTail: r.Float64(),
		},
	}
}

// A change that speaks for one way never makes the decision go the other way.
func TestTheDecisionIsMonotone(t *testing.T) {
	rounds := 200_000
	if testing.Short() {
		rounds = 50_000
	}
	more := func(r *rand.Rand) int { return 1 + r.IntN(100) }
	for name, tc := range map[string]struct {
		change func(r *rand.Rand, p *Policy, f *Facts) // for remote
		when   func(f *Facts) bool
	}{
		"a shorter queue":    {change: func(r *rand.Rand, _ *Policy, f *Facts) { f.Queue.Waiting -= r.IntN(f.Queue.Waiting + 1) }},
		"fewer jobs in work": {change: func(r *rand.Rand, _ *Policy, f *Facts) { f.Queue.Working -= r.IntN(f.Queue.Working + 1) }},
		"a younger queue": {change: func(r *rand.Rand, _ *Policy, f *Facts) {
			f.Queue.Oldest -= time.Duration(r.Int64N(int64(f.Queue.Oldest) + 1))
		}},
		"more prefill workers":  {change: func(r *rand.Rand, _ *Policy, f *Facts) { f.PrefillWorkers += more(r) }},
		"quicker ones":          {change: func(r *rand.Rand, _ *Policy, f *Facts) { f.Speeds.RemoteToken /= time.Duration(more(r)) }},
		"a quicker link":        {change: func(r *rand.Rand, _ *Policy, f *Facts) { f.Speeds.LinkBytesPerSecond *= float64(more(r)) }},
		"more prompts ahead":    {change: func(r *rand.Rand, _ *Policy, f *Facts) { f.AheadTokens += more(r) }},
		"more that decode":      {change: func(r *rand.Rand, _ *Policy, f *Facts) { f.Decoding += more(r) }},
		"a tighter target":      {change: func(r *rand.Rand, p *Policy, _ *Facts) { p.ITLTargetMS -= r.IntN(p.ITLTargetMS) }},
		"a slower local engine": {change: func(r *rand.Rand, _ *Policy, f *Facts) { f.Speeds.LocalToken *= time.Duration(more(r)) }},
		"a longer prompt": {
			change: func(r *rand.Rand, _ *Policy, f *Facts) { f.PromptTokens += more(r) },
			when: func(f *Facts) bool {
				perRow := time.Duration(float64(f.RowBytes) / f.Speeds.LinkBytesPerSecond * 1e9)
				// The first row's steps are whole here and there alike.
				return f.Deadline == 0 && f.CachedTokens == 0 && times(f.Speeds.RemoteToken+perRow, margin) < f.Speeds.LocalToken
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			tested, remote, turned := 0, 0, 0
			for range rounds {
				p := Policy{Policy: Cost, ITLTargetMS: 1 + r.IntN(200)}
				f := randomFacts(r)
				if tc.when != nil && !tc.when(&f) {
					continue
				}
				before := Decide(&p, &f)
				q, g := p, f
				tc.change(r, &q, &g)
				after := Decide(&q, &g)
				if before.Remote && !after.Remote {
					t.Fatalf("it went local: %+v\n%+v\n%+v, then\n%+v\n%+v\n%+v", p, f, before, q, g, after)
				}
				tested++
				if before.Remote {
					remote++
				}
				if before.Remote != after.Remote {
					turned++
				}
			}
			if tested < 1000 || remote < tested/20 || turned < 20 {
				t.Errorf("of %d cases %d were remote and %d turned: the test tests nothing", tested, remote, turned)
			}
		})
	}
}

// Whatever the facts, the decision keeps to what is possible, and its numbers are times.
func TestADecisionIsAlwaysPossible(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		f := randomFacts(r)
		f.SinceExplored = r.IntN(200)
		p := Policy{Policy: Names()[r.IntN(4)], ThresholdTokens: r.IntN(100), MaxQueue: r.IntN(20)}
		d := Decide(&p, &f)
		if d.Remote && f.PrefillWorkers == 0 || d.Remote && !f.Queue.Known && p.Policy != Always || d.Reason == "" {
			t.Fatalf("%+v for %+v, %+v", d, p, f)
		}
		if d.LocalTTFT < 0 || d.RemoteTTFT < d.QueueWait || d.QueueWait < f.Queue.Oldest || d.ITLHarm < 0 {
			t.Fatalf("%+v for %+v", d, f)
		}
	}
}
