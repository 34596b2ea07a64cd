package openai

import (
	"slices"
	"strconv"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// maxBiases is the most tokens that a request has a bias for.
const maxBiases = 1024

var biases = decimals{name: "logit_bias", low: -100, high: 100}

// readLogitBias reads an object of token ids and what is added to their logits.
func (p *parser) readLogitBias() error {
	s := p.req.Sampling
	return p.object(func(key string) error {
		if len(s.LogitBias) == maxBiases {
			return tooManyBiases("more")
		}
		token, err := tokenOf(key)
		if err != nil {
			return err
		}
		v, err := p.decimal(&biases)
		s.LogitBias = append(s.LogitBias, &generationv1.LogitBias{Token: token, Bias: toFloat32(v)})
		return err
	})
}

// tokenOf reads the key of a bias. Only one spelling of a number is taken, so that no token
// is named twice.
func tokenOf(key string) (uint32, error) {
	id, err := strconv.ParseUint(key, 10, 32)
	if err != nil || strconv.FormatUint(id, 10) != key {
		return 0, bad("invalid_value", "logit_bias",
			"Invalid key in 'logit_bias': '%s'. Expected token ids, which are integers from 0 to 4294967295 without leading zeros.", clip(key))
	}
	return uint32(id), nil
}

func tooManyBiases(got string) *Error {
	return bad("object_above_max_properties", "logit_bias",
		"Invalid 'logit_bias': too many properties. Expected an object with at most %d properties, but got %s instead.", maxBiases, got)
}

func checkLogitBias(all []*generationv1.LogitBias) error {
	if len(all) == 0 {
		return nil
	}
	if len(all) > maxBiases {
		return tooManyBiases(strconv.Itoa(len(all)))
	}
	tokens := make([]uint32, len(all))
	for i, b := range all {
		if err := biases.check(float64(b.GetBias())); err != nil {
			return err
		}
		tokens[i] = b.GetToken()
	}
	slices.Sort(tokens)
	for i := 1; i < len(tokens); i++ {
		if tokens[i] == tokens[i-1] {
			return bad("invalid_value", "logit_bias", "Invalid 'logit_bias': expected one entry for each token, but got two for %d.", tokens[i])
		}
	}
	return nil
}
