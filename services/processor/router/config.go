package router

import (
	"fmt"
	"time"
)

// Config says how workers are picked.
type Config struct {
	Weights `yaml:",inline"`

	MemoryBytes int           `yaml:"memory_bytes" help:"budget of the index of held prefixes, in bytes, once for decode and once for prefill workers"`
	AssumeFor   time.Duration `yaml:"assume_for" help:"how long a worker that publishes no events is taken to hold what was sent there"`
}

// Weights are the part of the configuration that can be changed live.
type Weights struct {
	Policy        Policy  `yaml:"policy" json:"policy" help:"how the decode worker is picked: kv, round-robin, random, least-loaded, power-of-two, session or direct"`
	PrefillWeight float64 `yaml:"prefill_weight" json:"prefill_weight" help:"weight of the time to compute the prompt's uncached tokens"`
	DecodeWeight  float64 `yaml:"decode_weight" json:"decode_weight" help:"weight of the time to generate the answer beside the running sequences"`
	StallWeight   float64 `yaml:"stall_weight" json:"stall_weight" help:"weight of the time to compute those, for each sequence that runs there and waits meanwhile"`
	HostCredit    float64 `yaml:"host_credit" json:"host_credit" help:"how much of a block in host memory counts as cached, 0 to 1"`
	DiskCredit    float64 `yaml:"disk_credit" json:"disk_credit" help:"how much of a block on disk counts as cached, 0 to 1"`
	PendingCredit float64 `yaml:"pending_credit" json:"pending_credit" help:"how much of a block counts as cached that a request sent before will compute, 0 to 1"`
	Temperature   float64 `yaml:"temperature" json:"temperature" help:"0 takes the lowest cost; else a worker is drawn with p ∝ exp(-cost / ((max - min) · temperature))"`
}

// DefaultWeights are those that did best in docs/routing-study.md.
func DefaultWeights() Weights {
	return Weights{Policy: KV, PrefillWeight: 4, DecodeWeight: 0.1, StallWeight: 0.01, HostCredit: 0.75, DiskCredit: 0.25, PendingCredit: 1}
}

// DefaultConfig has the default weights.
func DefaultConfig() Config {
	return Config{Weights: DefaultWeights(), MemoryBytes: 1 << 30, AssumeFor: 2 * time.Minute}
}

// Validate names the first field that cannot be.
func (w Weights) Validate() error {
	if !w.Policy.valid() {
		return fmt.Errorf("policy is %q, want one of %s", w.Policy, names())
	}
	const most = 1e6
	for _, f := range []struct {
		name       string
		value, max float64
	}{
		{"prefill_weight", w.PrefillWeight, most}, {"decode_weight", w.DecodeWeight, most}, {"stall_weight", w.StallWeight, most}, {"host_credit", w.HostCredit, 1},
		{"disk_credit", w.DiskCredit, 1}, {"pending_credit", w.PendingCredit, 1}, {"temperature", w.Temperature, most},
	} {
		if !(f.value >= 0 && f.value <= f.max) { // not a number is none
			return fmt.Errorf("%s is %v, want 0 to %v", f.name, f.value, f.max)
		}
	}
	return nil
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	if err := c.Weights.Validate(); err != nil {
		return err
	}
	if c.MemoryBytes < memoryMin {
		return fmt.Errorf("memory_bytes is %d, want at least %d", c.MemoryBytes, memoryMin)
	}
	if c.AssumeFor <= 0 {
		return fmt.Errorf("assume_for is %v, want more than 0", c.AssumeFor)
	}
	return nil
}

// memoryMin is a budget below which the index could hold next to nothing.
const memoryMin = 1 << 20
