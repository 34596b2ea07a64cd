package enginetest

import (
	"slices"

	"github.com/switchyard-llm/switchyard/libs/sampling"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Demanding asks for everything that can be asked of a draw from a toy with Spread: token 5
// would end the answer early and often, token 11 comes often, and token 12 must not come.
func Demanding(prompt []sequence.Token) sequence.Spec {
	return sequence.Spec{
		RequestID: "r", Choice: 1, Prompt: prompt, MaxTokens: 30, MinTokens: 12, StopTokens: []sequence.Token{5, 9000},
		LogProbs: true, TopLogProbs: 3,
		Sampling: sequence.Sampling{
			Temperature: 0.9, TopP: 0.98, MinP: 0.001, RepetitionPenalty: 1.3, FrequencyPenalty: 0.4, PresencePenalty: 0.6,
			Bias: []sequence.Bias{{Token: 5, Bias: 6}, {Token: 11, Bias: 5}, {Token: 12, Bias: -100}}, Seed: 42,
		},
	}
}

// SpreadAnswer is what a toy with Spread generates for a spec after its Generated tokens, and how
// likely each token was, by the definition: nothing is kept from token to token.
func SpreadAnswer(spec sequence.Spec) (tokens []sequence.Token, probs []sequence.LogProbs, err error) {
	var s sampling.Sampler
	for generated := slices.Clone(spec.Generated); len(generated) < spec.MaxTokens; {
		all := slices.Concat(spec.Prompt, generated)
		logits := toyLogitsAfter(all)
		at := sampling.Turn{Choice: spec.Choice, Position: len(all), History: sampling.NewHistory(&spec.Sampling, spec.Prompt, generated)}
		if len(generated) < spec.MinTokens {
			at.Banned = spec.StopTokens
		}
		token, err := s.Draw(logits, spec.Sampling, at)
		if err != nil {
			return nil, nil, err
		}
		p, err := sampling.LogProbs(logits, token, spec.TopLogProbs)
		if err != nil {
			return nil, nil, err
		}
		generated, tokens, probs = append(generated, token), append(tokens, token), append(probs, *p)
		if slices.Contains(spec.StopTokens, token) {
			break
		}
	}
	return tokens, probs, nil
}
