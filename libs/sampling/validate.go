package sampling

import (
	"fmt"
	"slices"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// MaxTemperature is the highest temperature that is accepted, and MaxPenalty the highest
// frequency or presence penalty and MaxBias the highest bias, either sign: the OpenAI API's.
const (
	MaxTemperature = 2
	MaxPenalty     = 2
	MaxBias        = 100
)

// MaxRepetitionPenalty bounds the repetition penalty, and MaxBiases how many tokens have a bias.
const (
	MaxRepetitionPenalty = 10
	MaxBiases            = 1024
)

// FieldError says which parameter is out of its range.
type FieldError struct {
	// Field is the parameter as clients spell it: temperature, top_p, top_k, min_p,
	// repetition_penalty, frequency_penalty, presence_penalty, logit_bias, logprobs or min_tokens.
	Field string
	// Value is what it was, Want the range.
	Value, Want string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s is %s, want %s", e.Field, e.Value, e.Want)
}

// Validate reports the first parameter that is out of its range, as a *FieldError.
func Validate(p sequence.Sampling) error {
	if err := validateScalars(&p); err != nil {
		return err
	}
	return validateBias(p.Bias)
}

// ValidateSpec does so for all that is asked about a sequence's tokens: its sampling, how many
// log-probabilities to tell, and how many tokens to generate at least.
func ValidateSpec(s *sequence.Spec) error {
	switch {
	case s.TopLogProbs < 0 || s.TopLogProbs > MaxTopLogProbs:
		return &FieldError{"logprobs", fmt.Sprint(s.TopLogProbs), fmt.Sprintf("0 to %d", MaxTopLogProbs)}
	case s.MinTokens < 0 || s.MinTokens > s.MaxTokens:
		return &FieldError{"min_tokens", fmt.Sprint(s.MinTokens), fmt.Sprintf("0 to max_tokens, %d", s.MaxTokens)}
	}
	return Validate(s.Sampling)
}

// validateScalars is cheap enough to be done with each draw. The ranges are written so that NaN fails.
func validateScalars(p *sequence.Sampling) error {
	switch {
	case !(p.Temperature >= 0 && p.Temperature <= MaxTemperature):
		return &FieldError{"temperature", fmt.Sprint(p.Temperature), fmt.Sprintf("0 to %d", MaxTemperature)}
	case !(p.TopP >= 0 && p.TopP <= 1):
		return &FieldError{"top_p", fmt.Sprint(p.TopP), "0 to 1"}
	case p.TopK < 0:
		return &FieldError{"top_k", fmt.Sprint(p.TopK), "at least 0"}
	case !(p.MinP >= 0 && p.MinP <= 1):
		return &FieldError{"min_p", fmt.Sprint(p.MinP), "0 to 1"}
	case !(p.RepetitionPenalty >= 0 && p.RepetitionPenalty <= MaxRepetitionPenalty): // 0 is unset
		return &FieldError{"repetition_penalty", fmt.Sprint(p.RepetitionPenalty), fmt.Sprintf("above 0, at most %d", MaxRepetitionPenalty)}
	case !within(p.FrequencyPenalty, MaxPenalty):
		return &FieldError{"frequency_penalty", fmt.Sprint(p.FrequencyPenalty), fmt.Sprintf("-%d to %[1]d", MaxPenalty)}
	case !within(p.PresencePenalty, MaxPenalty):
		return &FieldError{"presence_penalty", fmt.Sprint(p.PresencePenalty), fmt.Sprintf("-%d to %[1]d", MaxPenalty)}
	}
	return nil
}

func within(x, most float32) bool { return x >= -most && x <= most }

func validateBias(all []sequence.Bias) error {
	if len(all) > MaxBiases {
		return &FieldError{"logit_bias", fmt.Sprintf("%d entries", len(all)), fmt.Sprintf("at most %d", MaxBiases)}
	}
	tokens := make([]sequence.Token, 0, len(all))
	for _, b := range all {
		if !within(b.Bias, MaxBias) {
			return &FieldError{"logit_bias", fmt.Sprintf("%v for token %d", b.Bias, b.Token), fmt.Sprintf("-%d to %[1]d", MaxBias)}
		}
		tokens = append(tokens, b.Token)
	}
	slices.Sort(tokens)
	for i := range tokens {
		if i > 0 && tokens[i] == tokens[i-1] {
			return &FieldError{"logit_bias", fmt.Sprintf("given twice for token %d", tokens[i]), "one entry for each token"}
		}
	}
	return nil
}
