package worker

import (
	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// Spec reads a sequence off the wire. The prompt is shared, not copied.
func Spec(m *generationv1.Sequence) sequence.Spec {
	p := m.GetSampling()
	s := sequence.Spec{
		RequestID: m.GetRequestId(), Choice: int(m.GetChoice()),
		Prompt: m.GetPrompt(), Generated: m.GetGenerated(),
		MaxTokens: int(m.GetMaxTokens()), StopTokens: m.GetStopTokens(), Salt: m.GetCacheSalt(),
		Sampling: sequence.Sampling{Temperature: 1, TopP: p.GetTopP(), TopK: int(p.GetTopK()), Seed: p.GetSeed()},
	}
	if p != nil && p.Temperature != nil {
		s.Sampling.Temperature = p.GetTemperature()
	}
	return s
}

// finishReasons maps the reasons of a sequence's end to those of the contract.
var finishReasons = map[sequence.Finish]generationv1.FinishReason{
	sequence.Unfinished:      generationv1.FinishReason_FINISH_REASON_UNSPECIFIED,
	sequence.FinishStop:      generationv1.FinishReason_FINISH_REASON_STOP,
	sequence.FinishLength:    generationv1.FinishReason_FINISH_REASON_LENGTH,
	sequence.FinishCancelled: generationv1.FinishReason_FINISH_REASON_CANCELLED,
	sequence.FinishError:     generationv1.FinishReason_FINISH_REASON_ERROR,
}

// FinishReason is f as the contract names it.
func FinishReason(f sequence.Finish) generationv1.FinishReason { return finishReasons[f] }

// Finish reads a reason off the wire; an unknown one is Unfinished.
func Finish(r generationv1.FinishReason) sequence.Finish {
	for f, name := range finishReasons {
		if name == r {
			return f
		}
	}
	return sequence.Unfinished
}

// BlockRefs writes references to the wire.
func BlockRefs(refs []block.Ref) *transferv1.BlockRefs {
	out := &transferv1.BlockRefs{Blocks: make([]int32, len(refs)), Generations: make([]uint64, len(refs))}
	for i, r := range refs {
		out.Blocks[i], out.Generations[i] = int32(r.ID), uint64(r.Generation)
	}
	return out
}

// Refs reads references off the wire; columns of unequal length are read as far as both go.
func Refs(refs *transferv1.BlockRefs) []block.Ref {
	out := make([]block.Ref, min(len(refs.GetBlocks()), len(refs.GetGenerations())))
	for i := range out {
		out[i] = block.Ref{ID: block.ID(refs.Blocks[i]), Generation: block.Generation(refs.Generations[i])}
	}
	return out
}
