package route

import (
	"fmt"
	"math"
	"slices"

	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// KVConfig are the weights of the kv policy, whose cost of a worker is, in predicted ms,
//
//	prefill weight · prefill time of the request's uncached tokens
//	+ prefill time of all tokens that are to be computed there
//	+ decode weight · decode term
//	+ stall weight · sequences that generate there · prefill time of the request's uncached tokens
//
// The last term is what the others lose, whose tokens wait for the pieces of the prompt.
type KVConfig struct {
	PrefillWeight, DecodeWeight, StallWeight float64
	// Decode is the decode term of the policy exact; that of kv is the product's.
	Decode DecodeForm
	// Temperature makes the choice random, p ~ exp(-cost / ((max - min) · T)); 0 takes the lowest cost.
	Temperature float64
	// PendingCredit is how much of a block counts as resident on a worker that is about to compute it.
	PendingCredit float64
	// Speeds is where workers take from how quick they are.
	Speeds SpeedSource
}

// DecodeForm is what the decode term of a worker's cost is.
type DecodeForm string

const (
	// Step is one decode step of the worker with the request.
	Step DecodeForm = "step"
	// Own is all of the request's decode steps there, as many as requests had so far on average.
	Own DecodeForm = "own"
	// Others is how much longer the steps of the sequences there get, for as many steps.
	Others DecodeForm = "others"
)

var decodeForms = []DecodeForm{Step, Own, Others}

// DefaultKV has the product's default weights, which were chosen by replays: docs/routing-study.md.
func DefaultKV() KVConfig {
	w := router.DefaultWeights()
	return KVConfig{
		PrefillWeight: w.PrefillWeight, DecodeWeight: w.DecodeWeight, StallWeight: w.StallWeight, Temperature: w.Temperature,
		PendingCredit: w.PendingCredit, Decode: Own, Speeds: Learned,
	}
}

// Validate names the first field that cannot be.
func (c KVConfig) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"prefill-weight", c.PrefillWeight}, {"decode-weight", c.DecodeWeight}, {"stall-weight", c.StallWeight}, {"temperature", c.Temperature}, {"pending-credit", c.PendingCredit}} {
		if !(f.value >= 0 && f.value <= math.MaxFloat32) { // not a number is neither
			return fmt.Errorf("%s is %v, want at least 0", f.name, f.value)
		}
	}
	if !slices.Contains(decodeForms, c.Decode) {
		return fmt.Errorf("decode is %q, want one of %v", c.Decode, decodeForms)
	}
	if !slices.Contains(speedSources, c.Speeds) {
		return fmt.Errorf("speeds is %q, want one of %v", c.Speeds, speedSources)
	}
	return nil
}
