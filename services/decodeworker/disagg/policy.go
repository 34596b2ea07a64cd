package disagg

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The policies that can be set.
const (
	// Cost compares what both ways are predicted to take, and what a local prefill does to
	// the sequences that decode meanwhile.
	Cost = "cost"
	// Threshold goes remote for prompts of which enough is not cached, while the prefill
	// queue is short.
	Threshold = "threshold"
	// Always goes remote whenever a prefill worker lives.
	Always = "always"
	// Never computes every prompt on the decode worker.
	Never = "never"
)

// Names lists the policies.
func Names() []string { return []string{Cost, Threshold, Always, Never} }

const (
	// defaultITLTarget is what DistServe (OSDI '24, table 1) asks of a chat: a token each 0.1 s.
	defaultITLTarget = 100 * time.Millisecond
	// defaultExploreEvery keeps the price of exploring at about 3 % of the time to first token.
	defaultExploreEvery = 64
)

// Policy is the live configuration of the decision, as it lies in etcd.
type Policy struct {
	// Policy is one of Names.
	Policy string `json:"policy"`
	// ThresholdTokens: with Threshold, prompts with more uncached tokens go remote; with
	// Cost, only such prompts are sent there for the sake of exploring.
	ThresholdTokens int `json:"threshold_tokens"`
	// MaxQueue: with Threshold, only while fewer jobs than this wait in the prefill queue.
	MaxQueue int `json:"max_queue"`
	// ITLTargetMS: with Cost, the gap between two tokens of a running sequence, in
	// milliseconds, above which a local prefill harms it. 0 is 100.
	ITLTargetMS int `json:"itl_target_ms,omitempty"`
	// ExploreEvery: with Cost, one of so many decisions goes against the prediction, so that
	// both ways stay measured; fewer where that is predicted to be more than twice as long. 0 is 64.
	ExploreEvery int `json:"explore_every,omitempty"`
}

// DefaultPolicy suits a model with blocks of the given size. What it leaves 0 has a default
// of its own, so that its JSON names no field that an older worker would refuse.
func DefaultPolicy(blockTokens int) Policy {
	return Policy{Policy: Cost, ThresholdTokens: blockTokens, MaxQueue: 16}
}

// ITLTarget is the one in force.
func (p Policy) ITLTarget() time.Duration {
	if p.ITLTargetMS == 0 {
		return defaultITLTarget
	}
	return time.Duration(p.ITLTargetMS) * time.Millisecond
}

// ExplorePeriod is how many decisions come to one that explores.
func (p Policy) ExplorePeriod() int {
	if p.ExploreEvery == 0 {
		return defaultExploreEvery
	}
	return p.ExploreEvery
}

// Validate names the first field that cannot be.
func (p Policy) Validate() error {
	if !slices.Contains(Names(), p.Policy) {
		return fmt.Errorf("policy is %q, want one of %s", p.Policy, strings.Join(Names(), ", "))
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"threshold_tokens", p.ThresholdTokens}, {"max_queue", p.MaxQueue},
		{"itl_target_ms", p.ITLTargetMS}, {"explore_every", p.ExploreEvery},
	} {
		if f.value < 0 {
			return fmt.Errorf("%s is %d, want at least 0", f.name, f.value)
		}
	}
	return nil
}
