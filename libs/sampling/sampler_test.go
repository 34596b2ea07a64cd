package sampling

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

const vocab = 49152

// model makes logits like a language model's: a broad bell with a few high ones.
func model(rnd *rand.Rand, n int) []float32 {
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(rnd.NormFloat64() * 2.5)
	}
	for i := range 20 {
		logits[rnd.IntN(n)] = float32(14 - 0.4*float64(i))
	}
	return logits
}

func turn(choice, position int) Turn { return Turn{Choice: choice, Position: position} }

// naive is the definition of Draw on adjusted logits: sort all, cut, walk.
func naive(logits []float32, p sequence.Sampling, choice, position int) sequence.Token {
	order := make([]sequence.Token, len(logits))
	for i := range order {
		order[i] = sequence.Token(i)
	}
	slices.SortStableFunc(order, func(a, b sequence.Token) int { return cmp.Compare(logits[b], logits[a]) })
	if p.Temperature == 0 || p.TopK == 1 {
		return order[0]
	}
	most := float64(logits[order[0]])
	weight := func(t sequence.Token) uint64 {
		if x := (float64(logits[t]) - most) * (1 / float64(p.Temperature)); x >= lowest {
			return weight(x)
		}
		return 0
	}
	if p.MinP > 0 {
		order = slices.DeleteFunc(order, func(t sequence.Token) bool {
			x := (float64(logits[t]) - most) * (1 / float64(p.Temperature))
			return math.Exp(x) < float64(p.MinP)*(1-1e-12)
		})
	}
	if p.TopK > 0 {
		order = order[:min(p.TopK, len(order))]
	}
	total := uint64(0)
	for _, t := range order {
		total += weight(t)
	}
	if p.TopP > 0 && p.TopP < 1 {
		need, sum := portion(total, p.TopP), uint64(0)
		for i, t := range order {
			if sum += weight(t); sum >= need {
				order, total = order[:i+1], sum
				break
			}
		}
	}
	slices.Sort(order)
	at, _ := bits.Mul64(random(p.Seed, choice, position), total)
	for _, t := range order {
		w := weight(t)
		if at < w {
			return t
		}
		at -= w
	}
	panic("nothing drawn")
}

func TestDrawEqualsTheDefinition(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var s Sampler
	for round := range 4000 {
		n := 1 + rnd.IntN(300)
		logits := model(rnd, n)
		switch round % 4 {
		case 1: // ties
			for i := range logits {
				logits[i] = float32(math.Round(float64(logits[i])))
			}
		case 2: // nearly flat
			for i := range logits {
				logits[i] = float32(rnd.IntN(3)) / 1000
			}
		case 3: // masked
			for range n / 2 {
				logits[1+rnd.IntN(n)-1] = float32(math.Inf(-1))
			}
			logits[rnd.IntN(n)] = 1
		}
		p := sequence.Sampling{
			Temperature: []float32{0, 1e-30, 0.1, 0.7, 1, 2}[rnd.IntN(6)],
			TopP:        []float32{0, 1, 0.999, 0.9, 0.5, 1e-9}[rnd.IntN(6)],
			TopK:        []int{0, 0, 1, 2, 10, 50, n, n + 5}[rnd.IntN(8)],
			MinP:        []float32{0, 0, 1, 0.5, 0.05, 1e-6, 1e-45}[rnd.IntN(7)],
			Seed:        rnd.Uint64(),
		}
		got, err := s.Draw(logits, p, turn(round%3, round))
		if want := naive(logits, p, round%3, round); err != nil || got != want {
			t.Fatalf("round %d, %+v over %d tokens: %d, %v, want %d", round, p, n, got, err, want)
		}
	}
}

func TestPortionRoundsUpAndIsNeverNothing(t *testing.T) {
	for _, c := range []struct {
		total uint64
		topP  float32
		want  uint64
	}{
		{3, 0.5, 2}, {4, 0.5, 2}, {1, 1e-9, 1}, {1 << 40, 1e-30, 1}, {1 << 62, 0.25, 1 << 60}, {1<<62 + 1, 0.25, 1<<60 + 1},
	} {
		if got := portion(c.total, c.topP); got != c.want {
			t.Errorf("portion(%d, %v) = %d, want %d", c.total, c.topP, got, c.want)
		}
	}
}

func TestPickGivesEachTokenItsWeight(t *testing.T) {
	s := Sampler{weight: []uint64{2, 0, 3, 9, 1}, bucket: []uint16{5, nowhere, 0, 6, 5}, last: 5}
	for at, want := range []sequence.Token{0, 0, 2, 2, 2, 4} {
		if got := s.pick(uint64(at)); got != want {
			t.Errorf("pick(%d) = %d, want %d", at, got, want)
		}
	}
}

func TestPickOfAllGivesEachTokenItsWeight(t *testing.T) {
	s := Sampler{weight: []uint64{2, 0, 3, 0, 1}}
	for at, want := range []sequence.Token{0, 0, 2, 2, 2, 4} {
		if got := s.pickOfAll(uint64(at)); got != want {
			t.Errorf("pickOfAll(%d) = %d, want %d", at, got, want)
		}
	}
}

func TestWeightsAreTheSameWithBucketsAndWithout(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var a, b Sampler
	for range 200 {
		logits := model(rnd, 1+rnd.IntN(3000))
		most, temperature, least := slices.Max(logits), rnd.Float64()*2+0.01, -rnd.Float64()*40
		if least < lowest {
			least = lowest
		}
		all, sorted := a.weighAll(logits, most, temperature, least), b.weigh(logits, most, temperature, least)
		if all != sorted || !slices.Equal(a.weight, b.weight) {
			t.Fatalf("%d tokens at %v from %v: sums %d and %d, or the weights, differ", len(logits), temperature, least, all, sorted)
		}
	}
}

// Draws are promised to be the same on every machine and in every version.
func TestDrawsNeverChange(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(i*7919%1000) / 100
	}
	p := sequence.Sampling{Temperature: 0.8, TopP: 0.95, TopK: 200, Seed: 42}
	var (
		s   Sampler
		got []sequence.Token
	)
	for position := range len(goldenDraws) {
		token, err := s.Draw(logits, p, turn(1, position))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, token)
	}
	if !slices.Equal(got, goldenDraws[:]) {
		t.Errorf("draws = %v, want %v", got, goldenDraws)
	}
}

func TestDrawFollowsTheProbabilities(t *testing.T) {
	logits := []float32{0, 1, 2, float32(math.Inf(-1)), -1, 3}
	const draws = 200_000
	for _, c := range []struct {
		p    sequence.Sampling
		kept []sequence.Token
	}{
		{sequence.Sampling{Temperature: 1}, []sequence.Token{0, 1, 2, 4, 5}},
		{sequence.Sampling{Temperature: 2}, []sequence.Token{0, 1, 2, 4, 5}},
		{sequence.Sampling{Temperature: 1, TopK: 3}, []sequence.Token{1, 2, 5}},
		{sequence.Sampling{Temperature: 1, TopP: 0.8}, []sequence.Token{2, 5}},
		{sequence.Sampling{Temperature: 1, TopK: 2, TopP: 0.7}, []sequence.Token{5}},
	} {
		var s Sampler
		counts := make([]int, len(logits))
		for position := range draws {
			token, err := s.Draw(logits, c.p, turn(0, position))
			if err != nil {
				t.Fatal(err)
			}
			counts[token]++
		}
		total, drawn, chi := 0.0, 0, 0.0
		for _, k := range c.kept {
			total += math.Exp(float64(logits[k] / c.p.Temperature))
		}
		for _, k := range c.kept {
			want := draws * math.Exp(float64(logits[k]/c.p.Temperature)) / total
			chi += math.Pow(float64(counts[k])-want, 2) / want
			drawn += counts[k]
		}
		if drawn != draws || chi > 33.4 { // 4 degrees of freedom: once in a million
			t.Errorf("%+v: counts %v, chi-square %.1f, want only %v", c.p, counts, chi, c.kept)
		}
	}
}

func TestGreedyTakesTheLowestIDAmongEquals(t *testing.T) {
	var s Sampler
	for _, p := range []sequence.Sampling{{}, {Temperature: 1, TopK: 1}, {Temperature: 1, TopP: 1e-9}} {
		got, err := s.Draw([]float32{1, 5, 5, 2}, p, Turn{})
		if err != nil || got != 1 {
			t.Errorf("%+v: %d, %v, want 1", p, got, err)
		}
	}
}

func TestLogitsThatCannotBeAreErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits []float32
		want   string
	}{
		{nil, "draw the token at position 9: 0 logits, want 1 to 1048575"},
		{[]float32{0, 1, nan}, "draw the token at position 9: the logit of token 2 is NaN"},
		{[]float32{nan, 1}, "draw the token at position 9: the logit of token 0 is NaN"},
		{[]float32{0, inf, 1}, "draw the token at position 9: the highest logit, of token 1, is +Inf, want a finite one"},
		{[]float32{-inf, -inf}, "draw the token at position 9: the highest logit, of token 0, is -Inf, want a finite one"},
	} {
		for _, p := range []sequence.Sampling{{}, {Temperature: 1, TopP: 0.9}} {
			var s Sampler
			if _, err := s.Draw(c.logits, p, turn(0, 9)); err == nil || err.Error() != c.want {
				t.Errorf("%v: %v, want %s", c.logits, err, c.want)
			}
		}
	}
}

func TestDrawsDoNotAllocate(t *testing.T) {
	logits := model(rand.New(rand.NewPCG(7, 8)), 5000)
	var s Sampler
	for _, p := range []sequence.Sampling{{}, {Temperature: 1}, {Temperature: 1, TopP: 0.9, TopK: 100}} {
		draw := func() {
			if _, err := s.Draw(logits, p, turn(0, 5)); err != nil {
				t.Fatal(err)
			}
		}
		draw()
		if n := testing.AllocsPerRun(50, draw); n != 0 {
			t.Errorf("%+v: %v allocations per draw", p, n)
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	rnd := rand.New(rand.NewPCG(9, 10))
	logits, flat := model(rnd, vocab), make([]float32, vocab)
	for _, c := range []struct {
		name   string
		logits []float32
		p      sequence.Sampling
	}{
		{"greedy", logits, sequence.Sampling{}},
		{"temperature", logits, sequence.Sampling{Temperature: 0.8}},
		{"top_p", logits, sequence.Sampling{Temperature: 0.8, TopP: 0.95}},
		{"top_k", logits, sequence.Sampling{Temperature: 0.8, TopK: 40}},
		{"both", logits, sequence.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95}},
		{"top_p hot", logits, sequence.Sampling{Temperature: 2, TopP: 0.95}},
		{"top_p flat", flat, sequence.Sampling{Temperature: 1, TopP: 0.95}},
	} {
		b.Run(fmt.Sprintf("vocab%d/%s", vocab, c.name), func(b *testing.B) {
			var s Sampler
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := s.Draw(c.logits, c.p, turn(0, i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var goldenDraws = [...]sequence.Token{136, 988, 136, 668, 581, 963, 458, 321}
