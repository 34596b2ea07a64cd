package openai

import (
	"math"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// The ranges of the parameters that are decimals.
var (
	temperatures        = decimals{name: "temperature", low: 0, high: 2}
	topPs               = decimals{name: "top_p", low: 0, high: 1, above: true} // 0 would keep no token
	minPs               = decimals{name: "min_p", low: 0, high: 1}
	repetitionPenalties = decimals{name: "repetition_penalty", low: 0, high: 10, above: true} // it divides
	frequencyPenalties  = decimals{name: "frequency_penalty", low: -2, high: 2}
	presencePenalties   = decimals{name: "presence_penalty", low: -2, high: 2}
)

// sampling gives what reads a parameter that says how tokens are drawn; nil for another.
func (p *parser) sampling(name string) func() error {
	s := p.req.Sampling
	switch name {
	case "temperature":
		return p.setFloat(&s.Temperature, &temperatures)
	case "top_p":
		return p.setFloat(&s.TopP, &topPs)
	case "top_k":
		return p.readTopK
	case "min_p":
		return p.setFloat(&s.MinP, &minPs)
	case "repetition_penalty":
		return p.setFloat(&s.RepetitionPenalty, &repetitionPenalties)
	case "frequency_penalty":
		return p.setFloat(&s.FrequencyPenalty, &frequencyPenalties)
	case "presence_penalty":
		return p.setFloat(&s.PresencePenalty, &presencePenalties)
	case "logit_bias":
		return p.readLogitBias
	case "seed":
		return p.readSeed
	}
	return nil
}

// readTopK takes -1 as well, which means all tokens to other servers, as 0 does.
func (p *parser) readTopK() error {
	v, err := p.integer(-1, math.MaxUint32)
	if err != nil {
		return err
	}
	k := uint32(max(v, 0))
	p.req.Sampling.TopK = &k
	return nil
}

// readSeed takes any int64; a negative one is the key with the same bits.
func (p *parser) readSeed() error {
	v, err := p.integer(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	seed := uint64(v)
	p.req.Sampling.Seed = &seed
	return nil
}

func checkSampling(s *generationv1.Sampling) error {
	if s == nil {
		return nil
	}
	for _, c := range [...]struct {
		value *float32
		in    *decimals
	}{
		{s.Temperature, &temperatures}, {s.TopP, &topPs}, {s.MinP, &minPs}, {s.RepetitionPenalty, &repetitionPenalties},
		{s.FrequencyPenalty, &frequencyPenalties}, {s.PresencePenalty, &presencePenalties},
	} {
		if c.value == nil {
			continue
		}
		if err := c.in.check(float64(*c.value)); err != nil {
			return err
		}
	}
	return checkLogitBias(s.GetLogitBias())
}
