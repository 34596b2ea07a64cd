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
		MaxTokens: int(m.GetMaxTokens()), MinTokens: int(m.GetMinTokens()), StopTokens: m.GetStopTokens(), Salt: m.GetCacheSalt(),
		LogProbs: m.Logprobs != nil, TopLogProbs: int(m.GetLogprobs()), Priority: int(m.GetPriority()),
		Sampling: sequence.Sampling{
			Temperature: 1, TopP: p.GetTopP(), TopK: int(p.GetTopK()), MinP: p.GetMinP(), RepetitionPenalty: p.GetRepetitionPenalty(),
			FrequencyPenalty: p.GetFrequencyPenalty(), PresencePenalty: p.GetPresencePenalty(), Seed: p.GetSeed(),
		},
	}
	if p != nil && p.Temperature != nil {
		s.Sampling.Temperature = p.GetTemperature()
	}
	for _, b := range p.GetLogitBias() {
		s.Sampling.Bias = append(s.Sampling.Bias, sequence.Bias{Token: b.GetToken(), Bias: b.GetBias()})
	}
	return s
}

// LogProbs writes what is known of a token's probability to the wire; nil is nil.
func LogProbs(p *sequence.LogProbs) *generationv1.LogProbs {
	if p == nil {
		return nil
	}
	out := &generationv1.LogProbs{Logprob: p.LogProb}
	for _, t := range p.Top {
		out.TopTokens, out.TopLogprobs = append(out.TopTokens, t.Token), append(out.TopLogprobs, t.LogProb)
	}
	return out
}

// FromLogProbs reads it off the wire; columns of unequal length are read as far as both go.
func FromLogProbs(p *generationv1.LogProbs) *sequence.LogProbs {
	if p == nil {
		return nil
	}
	out := &sequence.LogProbs{LogProb: p.GetLogprob()}
	for i := range min(len(p.GetTopTokens()), len(p.GetTopLogprobs())) {
		out.Top = append(out.Top, sequence.TokenLogProb{Token: p.TopTokens[i], LogProb: p.TopLogprobs[i]})
	}
	return out
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
