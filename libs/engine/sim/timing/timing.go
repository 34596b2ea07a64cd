// Package timing predicts how long a step of an inference engine takes: by the published
// formulas of a mocked engine, by a roofline of model and GPU, or by a measured profile.
//
// It is pure arithmetic, but for LoadProfile, which reads a file: no clock, no randomness,
// no goroutine. A Model may be used from any goroutine.
package timing

import "time"

// Step is what an engine computes in one pass.
type Step struct {
	// PromptTokens are new prompt tokens over all segments of the pass.
	PromptTokens int
	// PromptPairs is the sum, over those segments, of the pairs (new token, token that it
	// attends to, itself included): n·start + n·(n+1)/2 for n tokens that begin at start.
	PromptPairs int64
	// Decoding is the number of sequences that each get one token.
	Decoding int
	// ContextTokens is the sum of their lengths.
	ContextTokens int64
	// PoolUsed is the share of the pool's blocks that sequences use, 0 to 1.
	PoolUsed float64
}

// Model predicts the duration of a step. A step without tokens takes no time.
type Model interface {
	Step(Step) time.Duration
}

// Pairs is Step.PromptPairs of one segment.
func Pairs(tokens, start int) int64 {
	n := int64(tokens)
	return n*int64(start) + n*(n+1)/2
}
