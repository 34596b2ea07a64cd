package sampling

import (
	"errors"
	"math"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

func TestValidateNamesFieldAndRange(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		p           sequence.Sampling
		field, want string
	}{
		{sequence.Sampling{Temperature: -0.5}, "temperature", "temperature is -0.5, want 0 to 2"},
		{sequence.Sampling{Temperature: 2.5}, "temperature", "temperature is 2.5, want 0 to 2"},
		{sequence.Sampling{Temperature: nan}, "temperature", "temperature is NaN, want 0 to 2"},
		{sequence.Sampling{TopP: 1.5}, "top_p", "top_p is 1.5, want 0 to 1"},
		{sequence.Sampling{TopP: nan}, "top_p", "top_p is NaN, want 0 to 1"},
		{sequence.Sampling{TopK: -1}, "top_k", "top_k is -1, want at least 0"},
		{sequence.Sampling{MinP: 1.5}, "min_p", "min_p is 1.5, want 0 to 1"},
		{sequence.Sampling{MinP: nan}, "min_p", "min_p is NaN, want 0 to 1"},
		{sequence.Sampling{RepetitionPenalty: -1}, "repetition_penalty", "repetition_penalty is -1, want above 0, at most 10"},
		{sequence.Sampling{RepetitionPenalty: 11}, "repetition_penalty", "repetition_penalty is 11, want above 0, at most 10"},
		{sequence.Sampling{RepetitionPenalty: nan}, "repetition_penalty", "repetition_penalty is NaN, want above 0, at most 10"},
		{sequence.Sampling{FrequencyPenalty: -2.5}, "frequency_penalty", "frequency_penalty is -2.5, want -2 to 2"},
		{sequence.Sampling{FrequencyPenalty: nan}, "frequency_penalty", "frequency_penalty is NaN, want -2 to 2"},
		{sequence.Sampling{PresencePenalty: 3}, "presence_penalty", "presence_penalty is 3, want -2 to 2"},
		{sequence.Sampling{PresencePenalty: nan}, "presence_penalty", "presence_penalty is NaN, want -2 to 2"},
	} {
		var field *FieldError
		if err := Validate(c.p); !errors.As(err, &field) || field.Field != c.field || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.p, err, c.want)
		}
		if _, err := new(Sampler).Draw([]float32{1}, c.p, Turn{}); !errors.As(err, &field) {
			t.Errorf("%+v: Draw says %v", c.p, err)
		}
	}
	if err := Validate(sequence.Sampling{
		Temperature: 2, TopP: 1, TopK: 7, MinP: 1, RepetitionPenalty: 10, FrequencyPenalty: -2, PresencePenalty: 2,
		Bias: []sequence.Bias{{Token: 3, Bias: -100}, {Token: 2, Bias: 100}},
	}); err != nil {
		t.Error(err)
	}
}

func TestValidateLooksAtEachBias(t *testing.T) {
	many := make([]sequence.Bias, MaxBiases+1)
	for i := range many {
		many[i].Token = sequence.Token(i)
	}
	if err := Validate(sequence.Sampling{Bias: many[1:]}); err != nil {
		t.Error(err)
	}
	for want, all := range map[string][]sequence.Bias{
		"logit_bias is 1025 entries, want at most 1024":                        many,
		"logit_bias is 101 for token 7, want -100 to 100":                      {{Token: 5, Bias: 1}, {Token: 7, Bias: 101}},
		"logit_bias is -101 for token 7, want -100 to 100":                     {{Token: 7, Bias: -101}},
		"logit_bias is NaN for token 7, want -100 to 100":                      {{Token: 7, Bias: float32(math.NaN())}},
		"logit_bias is given twice for token 5, want one entry for each token": {{Token: 5}, {Token: 6}, {Token: 5}},
	} {
		var field *FieldError
		if err := Validate(sequence.Sampling{Bias: all}); !errors.As(err, &field) || field.Field != "logit_bias" || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestValidateSpecLooksAtAllThatIsAskedOfTokens(t *testing.T) {
	if err := ValidateSpec(&sequence.Spec{MaxTokens: 5, MinTokens: 5, TopLogProbs: 20}); err != nil {
		t.Error(err)
	}
	for want, spec := range map[string]sequence.Spec{
		"logprobs is 21, want 0 to 20":                    {MaxTokens: 5, TopLogProbs: 21},
		"logprobs is -1, want 0 to 20":                    {MaxTokens: 5, TopLogProbs: -1},
		"min_tokens is 6, want 0 to max_tokens, 5":        {MaxTokens: 5, MinTokens: 6},
		"min_tokens is -1, want 0 to max_tokens, 5":       {MaxTokens: 5, MinTokens: -1},
		"presence_penalty is 2.5, want -2 to 2":           {MaxTokens: 5, Sampling: sequence.Sampling{PresencePenalty: 2.5}},
		"logit_bias is 200 for token 0, want -100 to 100": {MaxTokens: 5, Sampling: sequence.Sampling{Bias: []sequence.Bias{{Bias: 200}}}},
	} {
		var field *FieldError
		if err := ValidateSpec(&spec); !errors.As(err, &field) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
