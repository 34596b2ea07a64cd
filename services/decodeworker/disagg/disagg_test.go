package disagg

import "testing"

func TestDecide(t *testing.T) {
	live := Facts{PromptTokens: 100, CachedTokens: 80, OfferedTokens: 2048, PrefillWorkers: 1, QueueKnown: true}
	with := func(change func(*Facts)) Facts {
		f := live
		change(&f)
		return f
	}
	threshold := DefaultPolicy(16)
	for _, tc := range []struct {
		name   string
		policy Policy
		facts  Facts
		want   Decision
	}{
		{"never stays local", Policy{Policy: Never}, live, Decision{false, ByPolicy}},
		{"always goes remote for one token", Policy{Policy: Always}, with(func(f *Facts) { f.CachedTokens = 99 }), Decision{true, ByPolicy}},
		{"always ignores the queue", Policy{Policy: Always}, with(func(f *Facts) { f.QueueWaiting = 1000 }), Decision{true, ByPolicy}},
		{"always needs a prefill worker", Policy{Policy: Always}, with(func(f *Facts) { f.PrefillWorkers = 0 }), Decision{false, NoPrefillWorker}},
		{"always leaves it to the publishing to find the queue away", Policy{Policy: Always}, with(func(f *Facts) { f.QueueKnown = false }), Decision{true, ByPolicy}},
		{"a threshold needs the queue", threshold, with(func(f *Facts) { f.QueueKnown = false }), Decision{false, QueueUnreachable}},
		{"a prefix too long to be offered keeps a short rest here", threshold, with(func(f *Facts) { f.PromptTokens, f.CachedTokens = 6020, 6000 }), Decision{false, LongPrefix}},
		{"a long rest goes remote all the same", threshold, with(func(f *Facts) { f.PromptTokens, f.CachedTokens = 8000, 2500 }), Decision{true, LongPrompt}},
		{"more than the threshold goes remote", threshold, live, Decision{true, LongPrompt}},
		{"the threshold itself stays local", threshold, with(func(f *Facts) { f.CachedTokens = 84 }), Decision{false, ShortPrompt}},
		{"cached tokens count", threshold, with(func(f *Facts) { f.PromptTokens, f.CachedTokens = 1000, 990 }), Decision{false, ShortPrompt}},
		{"a queue below the limit", threshold, with(func(f *Facts) { f.QueueWaiting = 15 }), Decision{true, LongPrompt}},
		{"a queue at the limit", threshold, with(func(f *Facts) { f.QueueWaiting = 16 }), Decision{false, LongQueue}},
		{"no prefill worker", threshold, with(func(f *Facts) { f.PrefillWorkers = 0 }), Decision{false, NoPrefillWorker}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Decide(tc.policy, tc.facts); got != tc.want {
				t.Errorf("Decide = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for _, p := range []Policy{{Policy: "cost"}, {}, {Policy: Always, ThresholdTokens: -1}, {Policy: Always, MaxQueue: -1}} {
		if err := p.Validate(); err == nil {
			t.Errorf("Validate(%+v) = nil, want an error", p)
		}
	}
	if err := DefaultPolicy(16).Validate(); err != nil {
		t.Error(err)
	}
}
