package disagg

import (
	"encoding/json"
	"testing"
	"time"
)

// unmeasured is what speed.DefaultStart makes of blocks of 16 tokens; a test there holds
// that it stays so.
var unmeasured = Speeds{
	LocalToken: 5 * time.Millisecond, RemoteToken: 2500 * time.Microsecond,
	Step: 7 * time.Millisecond, StepSequence: 7 * time.Millisecond,
	RemoteOverhead: 40 * time.Millisecond, Job: 640 * time.Millisecond,
	LinkBytesPerSecond: 1e9, LinkLatency: 100 * time.Microsecond, WriteTail: 1,
}

// chat is a short question to the embedded model at an idle decode worker.
func chat() Facts {
	return Facts{
		PromptTokens: 36, OfferedTokens: 2048, RowBytes: 46080, PrefillWorkers: 1, Queue: Queue{Known: true},
		StepTokens: 128, Speeds: unmeasured,
	}
}

// level is the same where both ways were measured and are equal but for a hand-off's cost.
func level() Facts {
	f := chat()
	f.Speeds.RemoteToken, f.Speeds.RemoteOverhead = f.Speeds.LocalToken, 5*time.Millisecond
	return f
}

func TestDecide(t *testing.T) {
	with := func(f Facts, change func(*Facts)) Facts { change(&f); return f }
	live := Facts{PromptTokens: 100, CachedTokens: 80, OfferedTokens: 2048, PrefillWorkers: 1, Queue: Queue{Known: true}}
	threshold := Policy{Policy: Threshold, ThresholdTokens: 16, MaxQueue: 16}
	cost := DefaultPolicy(16)
	type table []struct {
		name   string
		facts  Facts
		remote bool
		reason Reason
	}
	for policy, cases := range map[Policy]table{
		{Policy: Never}: {
			{"stays local", live, false, ByPolicy},
		},
		{Policy: Always}: {
			{"goes remote for one token", with(live, func(f *Facts) { f.CachedTokens = 99 }), true, ByPolicy},
			{"ignores the queue", with(live, func(f *Facts) { f.Queue.Waiting = 1000 }), true, ByPolicy},
			{"needs a prefill worker", with(live, func(f *Facts) { f.PrefillWorkers = 0 }), false, NoPrefillWorker},
			{"leaves it to the publishing to find the queue away", with(live, func(f *Facts) { f.Queue.Known = false }), true, ByPolicy},
			{"keeps a sequence on trial here", with(live, func(f *Facts) { f.OnTrial = true }), false, OnTrial},
			{"does not explore", with(live, func(f *Facts) { f.SinceExplored = 64 }), true, ByPolicy},
		},
		threshold: {
			{"needs the queue", with(live, func(f *Facts) { f.Queue.Known = false }), false, QueueUnreachable},
			{"a prefix too long to be offered keeps a short rest here", with(live, func(f *Facts) { f.PromptTokens, f.CachedTokens = 6020, 6000 }), false, LongPrefix},
			{"a long rest goes remote all the same", with(live, func(f *Facts) { f.PromptTokens, f.CachedTokens = 8000, 2500 }), true, LongPrompt},
			{"more than the threshold goes remote", live, true, LongPrompt},
			{"the threshold itself stays local", with(live, func(f *Facts) { f.CachedTokens = 84 }), false, ShortPrompt},
			{"cached tokens count", with(live, func(f *Facts) { f.PromptTokens, f.CachedTokens = 1000, 990 }), false, ShortPrompt},
			{"a queue below the limit", with(live, func(f *Facts) { f.Queue.Waiting = 15 }), true, LongPrompt},
			{"a queue at the limit", with(live, func(f *Facts) { f.Queue.Waiting = 16 }), false, LongQueue},
			{"no prefill worker", with(live, func(f *Facts) { f.PrefillWorkers = 0 }), false, NoPrefillWorker},
		},
		cost: {
			{"an ordinary chat goes remote before anything was measured", chat(), true, RemoteFaster},
			{"what fills one block stays local", with(chat(), func(f *Facts) { f.PromptTokens = 16 }), false, LocalFaster},
			{"and so does what is cached but for a block", with(chat(), func(f *Facts) { f.PromptTokens, f.CachedTokens = 1040, 1024 }), false, LocalFaster},
			{"a sequence on trial", with(chat(), func(f *Facts) { f.OnTrial = true }), false, OnTrial},
			{"no prefill worker", with(chat(), func(f *Facts) { f.PrefillWorkers = 0 }), false, NoPrefillWorker},
			{"a queue that does not answer", with(chat(), func(f *Facts) { f.Queue.Known = false }), false, QueueUnreachable},
			{"a long queue", with(chat(), func(f *Facts) { f.Queue.Waiting = 3 }), false, LongQueue},
			{"a long queue before many workers is not long", with(chat(), func(f *Facts) { f.Queue.Waiting, f.PrefillWorkers = 3, 100 }), true, RemoteFaster},
			{"an old queue", with(chat(), func(f *Facts) { f.Queue.Waiting, f.PrefillWorkers, f.Queue.Oldest = 3, 100, time.Second }), false, OldQueue},
			{"equal workers: a hand-off only costs", level(), false, LocalFaster},
			{"a gain within what predictions are wrong by", with(level(), func(f *Facts) {
				f.Speeds.LocalOverhead = 12 * time.Millisecond // remote takes 194 ms, local 199 ms
			}), false, LocalFaster},
			{"a gain beyond that", with(level(), func(f *Facts) { f.Speeds.LocalOverhead = 20 * time.Millisecond }), true, RemoteFaster},
			{"other prompts ahead", with(level(), func(f *Facts) { f.AheadTokens = 100 }), true, RemoteFaster},
			{"a running batch would suffer", with(level(), func(f *Facts) { f.Decoding, f.PromptTokens = 4, 100 }), true, RemoteFaster},
			{"it goes there although its own TTFT is longer", with(level(), func(f *Facts) {
				f.Decoding, f.PromptTokens, f.Speeds.RemoteOverhead = 4, 100, 200*time.Millisecond
			}), true, ITLHarm},
			{"a batch that stays within its target is not harmed", with(level(), func(f *Facts) {
				f.Decoding, f.PromptTokens, f.Speeds.StepSequence = 1, 18, 0
			}), false, LocalFaster},
			{"beyond it, it is", with(level(), func(f *Facts) {
				f.Decoding, f.PromptTokens, f.Speeds.StepSequence = 1, 21, 0
			}), true, ITLHarm},
			{"a prefix that cannot be offered would be computed again", with(chat(), func(f *Facts) { f.PromptTokens, f.CachedTokens = 6020, 6000 }), false, LocalFaster},
			{"beyond the deadline", with(chat(), func(f *Facts) { f.Deadline = 50 * time.Millisecond }), false, LocalFaster},
			{"beyond the deadline by the wait", with(level(), func(f *Facts) {
				f.Decoding, f.PromptTokens, f.Queue.Waiting, f.Deadline = 60, 2000, 100, 30*time.Second
			}), false, LongQueue},
			{"a look at what is worse", with(level(), func(f *Facts) { f.SinceExplored = 64 }), true, ExploreRemote},
			{"not before its time", with(level(), func(f *Facts) { f.SinceExplored = 63 }), false, LocalFaster},
			{"nor as early where it is much worse", with(level(), func(f *Facts) { f.SinceExplored, f.Speeds.RemoteOverhead = 127, 600*time.Millisecond }), false, LocalFaster},
			{"but then", with(level(), func(f *Facts) { f.SinceExplored, f.Speeds.RemoteOverhead = 140, 600*time.Millisecond }), true, ExploreRemote},
			{"a look at what is worse here", with(chat(), func(f *Facts) { f.SinceExplored = 64 }), false, ExploreLocal},
			{"no look at what is hopeless", with(level(), func(f *Facts) { f.SinceExplored, f.Speeds.RemoteOverhead = 1e6, time.Minute }), false, LocalFaster},
			{"no look at what would harm the batch", with(level(), func(f *Facts) {
				f.SinceExplored, f.Decoding, f.PromptTokens = 1e6, 30, 2000
			}), true, RemoteFaster},
			{"no look past a queue", with(chat(), func(f *Facts) { f.SinceExplored, f.Queue.Waiting = 1e6, 3 }), false, LongQueue},
			{"no look for one block", with(level(), func(f *Facts) { f.SinceExplored, f.PromptTokens = 1e6, 16 }), false, LocalFaster},
		},
	} {
		for _, tc := range cases {
			t.Run(policy.Policy+" "+tc.name, func(t *testing.T) {
				got := Decide(&policy, &tc.facts)
				if got.Remote != tc.remote || got.Reason != tc.reason {
					t.Errorf("Decide = %+v, want remote %v by %s", got, tc.remote, tc.reason)
				}
			})
		}
	}
}

func TestPredictFollowsItsFormulas(t *testing.T) {
	ms := time.Millisecond
	f := Facts{
		PromptTokens: 500, CachedTokens: 200, OfferedTokens: 160, RowBytes: 1e6, PrefillWorkers: 2,
		Queue: Queue{Known: true, Waiting: 3, Working: 2}, AheadTokens: 84, Decoding: 5, StepTokens: 128,
		Speeds: Speeds{
			LocalToken: 2 * ms, RemoteToken: ms, Step: 10 * ms, StepSequence: 4 * ms, LocalOverhead: 3 * ms, RemoteOverhead: 6 * ms,
			Admission: 2 * ms, Job: 100 * ms, LinkBytesPerSecond: 1e9, LinkLatency: ms, WriteTail: 0.5,
		},
	}
	got := Predict(&f, 40*ms)
	want := Prediction{
		LocalTTFT:  3*ms + 384*2*ms + 3*30*ms + 15*ms,
		QueueWait:  200 * ms,
		RemoteTTFT: 200*ms + 6*ms + 2*ms + 340*ms + 26562500 + (1+160)*ms + (1+150)*ms, // 340/128 steps of 10 ms
		ITLHarm:    time.Duration(5 * (300*2e6 + 300.0/128*(30e6-40e6))),
	}
	if got != want {
		t.Errorf("Predict =\n%+v, want\n%+v", got, want)
	}
	// Steps that miss the target without a prompt are harmed by what it adds.
	if got := Predict(&f, 20*ms).ITLHarm; got != 5*300*2*ms {
		t.Errorf("the harm is %v, want %v", got, 5*300*2*ms)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for _, p := range []Policy{
		{Policy: "sometimes"}, {}, {Policy: Always, ThresholdTokens: -1}, {Policy: Always, MaxQueue: -1},
		{Policy: Cost, ITLTargetMS: -1}, {Policy: Cost, ExploreEvery: -1},
	} {
		if err := p.Validate(); err == nil {
			t.Errorf("Validate(%+v) = nil, want an error", p)
		}
	}
	if err := DefaultPolicy(16).Validate(); err != nil {
		t.Error(err)
	}
}

// What a policy of today writes must be readable for a worker of yesterday, which refuses
// names that it does not know, and the other way round.
func TestThePolicysJSONKeepsItsNames(t *testing.T) {
	text, err := json.Marshal(DefaultPolicy(16))
	if want := `{"policy":"cost","threshold_tokens":16,"max_queue":16}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	p := DefaultPolicy(16)
	if err := json.Unmarshal([]byte(`{"policy":"threshold","threshold_tokens":64,"max_queue":2}`), &p); err != nil {
		t.Fatal(err)
	}
	if want := (Policy{Policy: Threshold, ThresholdTokens: 64, MaxQueue: 2}); p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
	if p.ITLTarget() != 100*time.Millisecond || p.ExplorePeriod() != 64 {
		t.Errorf("the defaults are %v and %d", p.ITLTarget(), p.ExplorePeriod())
	}
	if p.ITLTargetMS, p.ExploreEvery = 30, 7; p.ITLTarget() != 30*time.Millisecond || p.ExplorePeriod() != 7 {
		t.Errorf("what is set does not count: %v and %d", p.ITLTarget(), p.ExplorePeriod())
	}
}

func BenchmarkDecide(b *testing.B) {
	p, f := DefaultPolicy(16), chat()
	f.Decoding, f.AheadTokens, f.Queue.Waiting = 8, 100, 2
	b.ReportAllocs()
	for b.Loop() {
		Decide(&p, &f)
	}
}

func TestAPrefixIsReadWhereThatIsQuicker(t *testing.T) {
	const rowBytes = 46080 // 461 µs on the slower link
	for _, tc := range []struct {
		name    string
		token   time.Duration
		link    float64
		latency time.Duration
		atLeast int
	}{
		{"a quick link", 3 * time.Millisecond, 4e9, 100 * time.Microsecond, 1},
		{"a long way", 3 * time.Millisecond, 4e9, 30 * time.Millisecond, 11},
		{"a slow link", 500 * time.Microsecond, 1e8, 390 * time.Microsecond, 10},
		{"a link that is slower than computing", 400 * time.Microsecond, 1e8, 0, NeverRead},
		{"a link as slow as computing", 4608 * time.Microsecond / 10, 1e8, time.Millisecond, NeverRead},
		{"a link that nobody measured", time.Millisecond, 0, 2 * time.Millisecond, 2},
	} {
		f := level()
		f.PromptTokens, f.CachedTokens, f.RowBytes, f.StepTokens = 100, 60, rowBytes, 1000
		f.Speeds.RemoteToken, f.Speeds.LinkBytesPerSecond, f.Speeds.LinkLatency = tc.token, tc.link, tc.latency
		if got := f.Speeds.ReadAtLeast(rowBytes); got != tc.atLeast {
			t.Errorf("%s: read at least %d, want %d", tc.name, got, tc.atLeast)
		}
		read, computed := predictReading(&f, f.readable()), predictReading(&f, 0)
		if got := predictRemote(&f); got != min(read, computed) || (read < computed) != (60 >= tc.atLeast) {
			t.Errorf("%s: predicted %v, %v when it is read, %v when it is computed", tc.name, got, read, computed)
		}
	}
}

func TestTheTimeToComputeCountsTokensAndSteps(t *testing.T) {
	s := Speeds{RemoteToken: time.Millisecond, Step: 10 * time.Millisecond}
	for _, tc := range []struct {
		rows, stepTokens int
		want             time.Duration
	}{{0, 64, 0}, {64, 64, 74 * time.Millisecond}, {32, 64, 37 * time.Millisecond}, {2, 0, 22 * time.Millisecond}} {
		if got := s.ComputeTime(tc.rows, tc.stepTokens); got != tc.want {
			t.Errorf("ComputeTime(%d, %d) = %v, want %v", tc.rows, tc.stepTokens, got, tc.want)
		}
	}
}
