package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// best returns the most likely token and how far it is ahead of the second.
func best(logits []float32) (token sequence.Token, margin float64) {
	first, second := math.Inf(-1), math.Inf(-1)
	for i, v := range logits {
		if v := float64(v); v > first {
			first, second, token = v, first, sequence.Token(i)
		} else if v > second {
			second = v
		}
	}
	return token, first - second
}

func TestGreedyOutputsMatchTheReferences(t *testing.T) {
	refs := enginetest.GreedyOutputs(t)
	m := model(t)
	total := 0
	batch := make([]engine.Segment, len(refs))
	for i, r := range refs {
		blocks := make([]block.ID, (len(r.PromptTokens)+len(r.Tokens)+15)/16)
		for j := range blocks {
			blocks[j] = block.ID(total + len(blocks) - 1 - j) // not in ascending order
		}
		total += len(blocks)
		batch[i] = engine.Segment{Tokens: r.PromptTokens, Blocks: blocks, Logits: make([]float32, m.Shape().VocabTokens)}
	}
	e := bound(t, m, Options{}, total)
	got := make([][]sequence.Token, len(refs))
	index := make([]int, len(refs))
	for i := range index {
		index[i] = i
	}
	for len(batch) > 0 {
		step(t, e, batch...)
		var next []engine.Segment
		var nextIndex []int
		for k, s := range batch {
			i := index[k]
			token, margin := best(s.Logits)
			at := len(got[i])
			if at >= len(refs[i].Tokens) {
				t.Fatalf("%s: token %d is beyond the reference", refs[i].Name, at)
			}
			if math.Abs(margin-refs[i].Margins[at]) > 2e-3 && token == refs[i].Tokens[at] {
				t.Errorf("%s: margin of token %d is %.6f, want %.6f", refs[i].Name, at, margin, refs[i].Margins[at])
			}
			got[i] = append(got[i], token)
			if len(got[i]) == len(refs[i].Tokens) || token != refs[i].Tokens[at] {
				continue
			}
			s.Start += len(s.Tokens)
			s.Tokens = []sequence.Token{token}
			next, nextIndex = append(next, s), append(nextIndex, i)
		}
		batch, index = next, nextIndex
	}
	for i, r := range refs {
		if !slices.Equal(got[i], r.Tokens) {
			t.Errorf("%s: got %v, want %v", r.Name, got[i], r.Tokens)
		}
	}
}
