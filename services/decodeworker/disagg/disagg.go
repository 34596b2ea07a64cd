// Package disagg decides whether the prompt of a sequence is computed on the decode
// worker itself or on a prefill worker. It is a pure function of a policy and of facts;
// it holds no state and does no I/O.
package disagg

import (
	"fmt"
	"slices"
	"strings"
)

// The policies that can be set.
const (
	// Threshold goes remote for prompts of which enough is not cached, while the prefill
	// queue is short.
	Threshold = "threshold"
	// Always goes remote whenever a prefill worker lives.
	Always = "always"
	// Never computes every prompt on the decode worker.
	Never = "never"
)

// Names lists the policies.
func Names() []string { return []string{Threshold, Always, Never} }

// Policy is the live configuration of the decision, as it lies in etcd.
type Policy struct {
	// Policy is one of Names.
	Policy string `json:"policy"`
	// ThresholdTokens: with Threshold, prompts with more uncached tokens go remote.
	ThresholdTokens int `json:"threshold_tokens"`
	// MaxQueue: with Threshold, only while fewer jobs than this wait in the prefill queue.
	MaxQueue int `json:"max_queue"`
}

// DefaultPolicy suits a model with blocks of the given size: what fills more than one block goes remote.
func DefaultPolicy(blockTokens int) Policy {
	return Policy{Policy: Threshold, ThresholdTokens: blockTokens, MaxQueue: 16}
}

// Validate names the first field that cannot be.
func (p Policy) Validate() error {
	switch {
	case !slices.Contains(Names(), p.Policy):
		return fmt.Errorf("policy is %q, want one of %s", p.Policy, strings.Join(Names(), ", "))
	case p.ThresholdTokens < 0:
		return fmt.Errorf("threshold_tokens is %d, want at least 0", p.ThresholdTokens)
	case p.MaxQueue < 0:
		return fmt.Errorf("max_queue is %d, want at least 0", p.MaxQueue)
	}
	return nil
}

// Facts are what is known when a sequence has its blocks.
type Facts struct {
	// PromptTokens is the length of what must be in the cache before decoding.
	PromptTokens int
	// CachedTokens of them are resident on the decode worker.
	CachedTokens int
	// OfferedTokens is how long a prefix a prefill worker may read at least; what is cached
	// beyond that it may have to compute.
	OfferedTokens int
	// PrefillWorkers is how many live ones could take the job.
	PrefillWorkers int
	// QueueWaiting is how many jobs wait in the prefill queue; QueueKnown is false when
	// the queue could not be asked. Only Threshold looks at it.
	QueueWaiting int
	QueueKnown   bool
}

// Reason says why a decision is what it is. It is the label of a counter.
type Reason string

// The reasons for a decision.
const (
	ByPolicy         Reason = "policy"
	NoPrefillWorker  Reason = "no_prefill_worker"
	ShortPrompt      Reason = "short_prompt"
	LongPrefix       Reason = "long_prefix"
	LongQueue        Reason = "long_queue"
	QueueUnreachable Reason = "queue_unreachable"
	LongPrompt       Reason = "long_prompt"
)

// Decision is where the prompt is computed, and why.
type Decision struct {
	Remote bool
	Reason Reason
}

// Decide applies a valid policy to the facts.
func Decide(p Policy, f Facts) Decision {
	uncached := f.PromptTokens - f.CachedTokens
	unoffered := f.CachedTokens - f.OfferedTokens
	switch {
	case p.Policy == Never:
		return Decision{Reason: ByPolicy}
	case f.PrefillWorkers == 0:
		return Decision{Reason: NoPrefillWorker}
	case p.Policy == Always:
		return Decision{Remote: true, Reason: ByPolicy}
	case !f.QueueKnown:
		return Decision{Reason: QueueUnreachable}
	case uncached <= unoffered: // elsewhere more might be computed twice than is new
		return Decision{Reason: LongPrefix}
	case uncached <= p.ThresholdTokens:
		return Decision{Reason: ShortPrompt}
	case f.QueueWaiting >= p.MaxQueue:
		return Decision{Reason: LongQueue}
	}
	return Decision{Remote: true, Reason: LongPrompt}
}
