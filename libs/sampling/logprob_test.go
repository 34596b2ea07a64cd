package sampling

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// naiveLogProbs is the definition of LogProbs, by package math.
func naiveLogProbs(logits []float32, token sequence.Token, top int) (own float64, likeliest []sequence.Token, probs []float64) {
	high, sum := math.Inf(-1), 0.0
	for _, l := range logits {
		high = max(high, float64(l))
	}
	for _, l := range logits {
		sum += math.Exp(float64(l) - high)
	}
	order := make([]sequence.Token, 0, len(logits))
	for i, l := range logits {
		if !math.IsInf(float64(l), -1) {
			order = append(order, sequence.Token(i))
		}
	}
	slices.SortStableFunc(order, func(a, b sequence.Token) int { return cmp.Compare(logits[b], logits[a]) })
	norm := high + math.Log(sum)
	order = order[:min(top, len(order))]
	for _, t := range order {
		probs = append(probs, float64(logits[t])-norm)
	}
	return float64(logits[token]) - norm, order, probs
}

// near is within the promised error and the rounding to float32.
func near(got float32, want float64) bool {
	return float64(got) == want || math.Abs(float64(got)-want) <= 1e-8+math.Abs(want)*(1.0/(1<<24))
}

func TestLogProbsEqualTheDefinition(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for round := range 3000 {
		n := 1 + rnd.IntN(300)
		logits := model(rnd, n)
		switch round % 3 {
		case 1: // ties
			for i := range logits {
				logits[i] = float32(math.Round(float64(logits[i])))
			}
		case 2: // masked
			for range 2 * n {
				logits[rnd.IntN(n)] = float32(math.Inf(-1))
			}
			logits[rnd.IntN(n)] = -3
		}
		token, top := sequence.Token(rnd.IntN(n)), rnd.IntN(MaxTopLogProbs+1)
		got, err := LogProbs(logits, token, top)
		if err != nil {
			t.Fatal(err)
		}
		own, likeliest, probs := naiveLogProbs(logits, token, top)
		if !near(got.LogProb, own) || len(got.Top) != len(likeliest) {
			t.Fatalf("round %d: %v and %d others, want %v and %d", round, got.LogProb, len(got.Top), own, len(likeliest))
		}
		for i, g := range got.Top {
			if g.Token != likeliest[i] || !near(g.LogProb, probs[i]) {
				t.Fatalf("round %d: %d. is token %d with %v, want %d with %v", round, i, g.Token, g.LogProb, likeliest[i], probs[i])
			}
			if g.Token == token && g.LogProb != got.LogProb {
				t.Fatalf("round %d: the token has %v and, among the likeliest, %v", round, got.LogProb, g.LogProb)
			}
		}
	}
}

func TestLogProbsSumToOne(t *testing.T) {
	p, err := LogProbs([]float32{1, 2, 3, 4}, 2, 20)
	if err != nil || len(p.Top) != 4 {
		t.Fatalf("%+v, %v, want all four tokens", p, err)
	}
	sum := 0.0
	for _, e := range p.Top {
		sum += math.Exp(float64(e.LogProb))
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Errorf("the probabilities sum to %v", sum)
	}
}

func TestLogProbsOfWhatCannotBeAreErrors(t *testing.T) {
	for want, c := range map[string]struct {
		logits []float32
		token  sequence.Token
	}{
		"log-probability of token 2: there are 2 logits":          {[]float32{1, 2}, 2},
		"log-probability of token 0: the logit of token 1 is NaN": {[]float32{1, float32(math.NaN())}, 0},
	} {
		if _, err := LogProbs(c.logits, c.token, 1); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Told log-probabilities are promised to be the same on every machine.
func TestLogProbsNeverChange(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(i*7919%1000) / 100
	}
	got, err := LogProbs(logits, 7, 3)
	want := &sequence.LogProbs{LogProb: goldenLogProb, Top: goldenTop[:]}
	if err != nil || got.LogProb != want.LogProb || !slices.Equal(got.Top, want.Top) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func BenchmarkLogProbs(b *testing.B) {
	logits := model(rand.New(rand.NewPCG(9, 10)), vocab)
	for _, top := range []int{0, 5, 20} {
		b.Run(fmt.Sprintf("vocab%d/top%d", vocab, top), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := LogProbs(logits, 5, top); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

const goldenLogProb = -10.270121

var goldenTop = [...]sequence.TokenLogProb{{Token: 321, LogProb: -4.610121}, {Token: 642, LogProb: -4.620121}, {Token: 963, LogProb: -4.6301203}}
