package timing

import "time"

// Mocker is the timing that Dynamo's mocker publishes for its engine, in milliseconds:
//
//	prefill(t) = 4.209989e-7·t² + 1.518344e-2·t + 16.50142   for t new prompt tokens of the pass
//	decode(p)  = max(1, -25.74·p² + 54.01·p + 5.74)          for the used share p of the pool
//
// A pass takes the sum of those of its two parts that it has. What is attended to does not count.
type Mocker struct{}

var _ Model = Mocker{}

// Step implements Model.
func (Mocker) Step(s Step) time.Duration {
	var ms float64
	if s.PromptTokens > 0 {
		t := float64(s.PromptTokens)
		ms += 4.209989e-7*t*t + 1.518344e-2*t + 16.50142
	}
	if s.Decoding > 0 {
		p := s.PoolUsed
		ms += max(1, -25.74*p*p+54.01*p+5.74)
	}
	return time.Duration(ms * float64(time.Millisecond))
}
