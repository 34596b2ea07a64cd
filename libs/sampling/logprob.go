package sampling

import (
	"fmt"
	"math"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// MaxTopLogProbs is how many of the likeliest tokens may be asked for, the OpenAI API's.
const MaxTopLogProbs = 20

// LogProbs tells how likely a token is under the logits as they are: temperature 1, nothing
// cut. Beside it stand the likeliest top tokens, in order of falling logit and rising id;
// fewer where fewer have a chance at all. The token's own is −Inf for a logit of −Inf. The
// error is below 1e-8 before the rounding to float32.
func LogProbs(logits []float32, token sequence.Token, top int) (*sequence.LogProbs, error) {
	if int(token) >= len(logits) {
		return nil, fmt.Errorf("log-probability of token %d: there are %d logits", token, len(logits))
	}
	most, err := highest(logits)
	if err != nil {
		return nil, fmt.Errorf("log-probability of token %d: %w", token, err)
	}
	high := float64(logits[most])
	norm := high + logTotal(logits, high)
	p := &sequence.LogProbs{LogProb: float32(float64(logits[token]) - norm)}
	if top <= 0 {
		return p, nil
	}
	p.Top = likeliest(logits, min(top, MaxTopLogProbs))
	for i := range p.Top {
		p.Top[i].LogProb = float32(float64(p.Top[i].LogProb) - norm)
	}
	return p, nil
}

// logTotal is the logarithm of Σ e^(l − high), out of the integer weights of a draw, so that
// no order of summation shows: each is off by 4e-11 of itself, or below 3e-14.
func logTotal(logits []float32, high float64) float64 {
	total := uint64(0)
	for _, l := range logits {
		if x := float64(l) - high; x >= lowest {
			total += weight(x)
		}
	}
	return log(float64(total) / (1 << oneBits))
}

// likeliest are the first n tokens in order of falling logit and rising id, with their logits.
// Most tokens cost one comparison.
func likeliest(logits []float32, n int) []sequence.TokenLogProb {
	top, bar := make([]sequence.TokenLogProb, 0, n), float32(math.Inf(-1))
	for t, l := range logits {
		if !(l > bar) {
			continue
		}
		if len(top) < n {
			top = top[:len(top)+1]
		}
		i := len(top) - 1
		for ; i > 0 && l > top[i-1].LogProb; i-- {
			top[i] = top[i-1]
		}
		top[i] = sequence.TokenLogProb{Token: sequence.Token(t), LogProb: l}
		if len(top) == n {
			bar = top[n-1].LogProb
		}
	}
	return top
}
