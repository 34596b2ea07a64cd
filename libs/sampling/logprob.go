package sampling

import (
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// LogProb is the natural logarithm of the token's probability under the logits as
// they are: temperature 1, nothing cut. It is −Inf for a logit of −Inf.
func LogProb(logits []float32, token sequence.Token) (float64, error) {
	if int(token) >= len(logits) {
		return 0, fmt.Errorf("log-probability of token %d: there are %d logits", token, len(logits))
	}
	top, err := highest(logits)
	if err != nil {
		return 0, fmt.Errorf("log-probability of token %d: %w", token, err)
	}
	sum, most := 0.0, float64(logits[top])
	for _, l := range logits {
		sum += exp(float64(l) - most)
	}
	return float64(logits[token]) - most - log(sum), nil
}
