package sampling

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

const (
	// The most likely token has the weight 2^oneBits, the others e^x of it, rounded. Below
	// one half a token has the weight 0 and is never drawn: its probability is under
	// 3e-14.
	oneBits = 44
	// lowest is where the weight is 0: −45 · ln 2, rounded down.
	lowest = -31.2

	// maxVocab keeps the sum of the weights within 64 bits.
	maxVocab = 1<<(64-oneBits) - 1

	// buckets divide the range from lowest to 0 for top_k and top_p, so that only the
	// bucket with the border in it must be sorted.
	buckets    = 1024
	bucketsPer = buckets / -lowest // per unit of x
	nowhere    = buckets           // the bucket of the tokens without weight

	// topPBits is the precision to which top_p is taken.
	topPBits = 32
)

// Sampler is the scratch memory of draws: make one per goroutine and reuse it. The
// zero value is ready; it grows to 10 bytes per token of the vocabulary.
type Sampler struct {
	weight []uint64
	bucket []uint16
	sum    [buckets]uint64 // of the weights in a bucket
	count  [buckets]int
	last   int // the last bucket of which tokens are kept
	border []sequence.Token

	changes []changed // what a draw has changed of its logits
}

// Turn is what a draw depends on beside the logits and the parameters.
type Turn struct {
	// Choice is the index of the sequence in its request, Position the number of tokens
	// before the one to draw.
	Choice, Position int
	// History is the sequence's; required where NewHistory makes one.
	History *History
	// Banned are not drawn.
	Banned []sequence.Token
}

// Draw returns the next token of a sequence, given its logits by token id, which are the same
// afterwards.
//
// The bias is added to the logits and the penalties are taken, in float64; the repetition
// penalty first, then the frequency and the presence penalty. Temperature 0 gives the highest
// logit, the lowest id among equals. Otherwise the logits are divided by the temperature; tokens
// whose probability is below MinP of the first one's are dropped; the TopK first are kept, in
// order of falling logit and rising id; of these the fewest whose probabilities, among them, sum
// to TopP; and one is drawn by its probability. A logit may be −Inf. An error names the
// parameter, or the token whose logit cannot be.
func (s *Sampler) Draw(logits []float32, p sequence.Sampling, at Turn) (sequence.Token, error) {
	if err := validateScalars(&p); err != nil { // the bias is in the history, and was looked at once
		return 0, fmt.Errorf("draw a token: %w", err)
	}
	if at.History == nil && adjusts(&p) {
		return 0, errors.New("draw a token: a bias or a penalty is set, and there is no history")
	}
	if at.History == nil && len(at.Banned) == 0 {
		return s.draw(logits, &p, &at)
	}
	if err := s.adjust(logits, &at); err != nil {
		return 0, fmt.Errorf("draw the token at position %d: %w", at.Position, err)
	}
	token, err := s.draw(logits, &p, &at)
	if err != nil && len(at.Banned) > 0 {
		err = fmt.Errorf("%w (%d tokens must not be drawn yet)", err, len(at.Banned))
	}
	s.restore(logits)
	return token, err
}

// draw draws from the logits as they are.
func (s *Sampler) draw(logits []float32, p *sequence.Sampling, at *Turn) (sequence.Token, error) {
	top, err := highest(logits)
	if err != nil {
		return 0, fmt.Errorf("draw the token at position %d: %w", at.Position, err)
	}
	if p.Temperature == 0 || p.TopK == 1 {
		return top, nil
	}
	byCount, byMass := p.TopK > 0 && p.TopK < len(logits), p.TopP > 0 && p.TopP < 1
	// The high half of the product maps 64 random bits onto [0, total).
	draw := random(p.Seed, at.Choice, at.Position)
	if !byCount && !byMass {
		point, _ := bits.Mul64(draw, s.weighAll(logits, logits[top], float64(p.Temperature), floor(p.MinP)))
		return s.pickOfAll(point), nil
	}
	total := s.weigh(logits, logits[top], float64(p.Temperature), floor(p.MinP))
	if byCount {
		total = s.keepCount(logits, p.TopK)
	}
	if byMass {
		total = s.keepMass(logits, portion(total, p.TopP))
	}
	point, _ := bits.Mul64(draw, total)
	return s.pick(point), nil
}

// highest is the first token with the highest logit.
func highest(logits []float32) (sequence.Token, error) {
	if len(logits) == 0 || len(logits) > maxVocab {
		return 0, fmt.Errorf("%d logits, want 1 to %d", len(logits), maxVocab)
	}
	top, most := 0, float32(math.Inf(-1))
	for i, l := range logits {
		if l <= most {
			continue
		}
		if l != l {
			return 0, fmt.Errorf("the logit of token %d is NaN", i)
		}
		top, most = i, l
	}
	if math.IsInf(float64(most), 0) {
		return 0, fmt.Errorf("the highest logit, of token %d, is %v, want a finite one", top, most)
	}
	return sequence.Token(top), nil
}

// floor is the least x, so that e^x is not below min_p, of those that have a weight.
func floor(minP float32) float64 {
	if minP == 0 {
		return lowest
	}
	return max(lowest, -log(1/float64(minP)))
}

// weighAll fills in the weights of all with x ≥ least and returns their sum.
func (s *Sampler) weighAll(logits []float32, most float32, temperature, least float64) uint64 {
	weights := slices.Grow(s.weight[:0], len(logits))[:len(logits)]
	s.weight = weights
	total, high, inverse := uint64(0), float64(most), 1/temperature
	for i, l := range logits {
		x := (float64(l) - high) * inverse
		if x < least {
			weights[i] = 0
			continue
		}
		w := weight(x)
		weights[i] = w
		total += w
	}
	return total
}

// pickOfAll is the token at which the running sum of the weights, by rising id, first exceeds at.
func (s *Sampler) pickOfAll(at uint64) sequence.Token {
	sum := uint64(0)
	for i, w := range s.weight {
		if sum += w; sum > at {
			return sequence.Token(i)
		}
	}
	panic("sampling: the weights sum to less than their sum")
}

// weigh fills in the weights and the buckets of all with x ≥ least and returns the sum of the
// weights. It costs a third more than weighAll, and is for draws that may not keep all.
func (s *Sampler) weigh(logits []float32, most float32, temperature, least float64) uint64 {
	n := len(logits)
	weights, places := slices.Grow(s.weight[:0], n)[:n], slices.Grow(s.bucket[:0], n)[:n] // in registers
	s.weight, s.bucket = weights, places
	s.sum, s.count = [buckets]uint64{}, [buckets]int{}
	s.last = buckets - 1
	total, high, inverse := uint64(0), float64(most), 1/temperature
	for i, l := range logits {
		x := (float64(l) - high) * inverse
		if x < least {
			weights[i], places[i] = 0, nowhere
			continue
		}
		w := weight(x)
		b := min(uint16(int32(x*-bucketsPer)), buckets-1)
		weights[i], places[i] = w, b
		s.sum[b] += w
		s.count[b]++
		total += w
	}
	return total
}

// portion is the least weight that is the top-p part of the total.
func portion(total uint64, topP float32) uint64 {
	hi, lo := bits.Mul64(total, uint64(float64(topP)*(1<<topPBits)))
	need := hi<<(64-topPBits) | lo>>topPBits
	if lo<<(64-topPBits) != 0 {
		need++
	}
	return max(need, 1)
}

// keepCount keeps the first n tokens and returns the sum of their weights.
func (s *Sampler) keepCount(logits []float32, n int) uint64 {
	kept, total := 0, uint64(0)
	for b := range buckets {
		if kept+s.count[b] > n {
			s.last = b
			return total + s.trim(logits, func(sequence.Token) bool { kept++; return kept <= n })
		}
		kept += s.count[b]
		total += s.sum[b]
	}
	return total // fewer than n have a weight
}

// keepMass keeps the fewest first tokens whose weights sum to need, and returns
// the sum.
func (s *Sampler) keepMass(logits []float32, need uint64) uint64 {
	total := uint64(0)
	for b := range s.last + 1 {
		if total+s.sum[b] >= need {
			s.last = b
			sum := total
			return total + s.trim(logits, func(t sequence.Token) bool {
				short := sum < need
				sum += s.weight[t]
				return short
			})
		}
		total += s.sum[b]
	}
	return total
}

// trim keeps those tokens of the last bucket, asked for in order, that keep accepts,
// takes the weight of the others and returns the sum that remains in the bucket.
func (s *Sampler) trim(logits []float32, keep func(sequence.Token) bool) uint64 {
	s.border = s.border[:0]
	for i, b := range s.bucket {
		if int(b) == s.last && s.weight[i] > 0 {
			s.border = append(s.border, sequence.Token(i))
		}
	}
	slices.SortStableFunc(s.border, func(a, b sequence.Token) int { return cmp.Compare(logits[b], logits[a]) })
	sum := uint64(0)
	for _, t := range s.border {
		if keep(t) {
			sum += s.weight[t]
		} else {
			s.weight[t] = 0
		}
	}
	s.sum[s.last] = sum
	return sum
}

// pick is the kept token at which the running sum of the weights, by rising id,
// first exceeds at.
func (s *Sampler) pick(at uint64) sequence.Token {
	sum, last := uint64(0), uint16(s.last)
	for i, w := range s.weight {
		if s.bucket[i] > last {
			continue
		}
		if sum += w; sum > at {
			return sequence.Token(i)
		}
	}
	panic("sampling: the weights sum to less than their sum")
}
