package sim

import (
	"slices"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// numericsID names the chain and how tokens are drawn from it; it changes when they do.
const numericsID = "sim-v1"

// protocolVersion numbers the meaning of the KV format.
const protocolVersion = 1

// seed is the state of the chain before the first token.
const seed = 0x5317c4a9

// next is the state after one more token: half of SplitMix64's finalizer over both. It has 32 bits, so
// that a row is small; of wrong rows one in 2^32 passes for right.
func next(state uint32, t sequence.Token) uint32 {
	x := uint64(state)<<32 + (uint64(t)+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return uint32(x >> 32)
}

// Answer is what a simulated engine without a vocabulary of its own generates after a prompt,
// without any blocks: up to max tokens, ending with the first of stops.
func Answer(prompt []sequence.Token, max int, stops ...sequence.Token) []sequence.Token {
	return (*Vocabulary)(nil).Answer(prompt, max, stops...)
}

// Answer is the same in a vocabulary.
func (v *Vocabulary) Answer(prompt []sequence.Token, max int, stops ...sequence.Token) []sequence.Token {
	state := uint32(seed)
	for _, t := range prompt {
		state = next(state, t)
	}
	var out []sequence.Token
	for len(out) < max {
		t := v.draw(state)
		out = append(out, t)
		if slices.Contains(stops, t) {
			break
		}
		state = next(state, t)
	}
	return out
}
