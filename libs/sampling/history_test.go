package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// adjusted is the definition of bias, penalties and bans, token by token.
func adjusted(logits []float32, p sequence.Sampling, prompt, generated, banned []sequence.Token) []float32 {
	out := make([]float32, len(logits))
	for i, l := range logits {
		t, x, count := sequence.Token(i), float64(l), 0
		for _, b := range p.Bias {
			if b.Token == t {
				x += float64(b.Bias)
			}
		}
		for _, g := range generated {
			if g == t {
				count++
			}
		}
		if r := float64(p.RepetitionPenalty); r != 0 && (count > 0 || slices.Contains(prompt, t)) {
			if x > 0 {
				x /= r
			} else {
				x *= r
			}
		}
		x -= float64(float64(p.FrequencyPenalty)*float64(count)) + float64(p.PresencePenalty)*float64(min(count, 1))
		if slices.Contains(banned, t) {
			x = math.Inf(-1)
		}
		out[i] = float32(x)
	}
	return out
}

// random parameters; about half of them change nothing.
func anyAdjusting(rnd *rand.Rand, n int) sequence.Sampling {
	p := sequence.Sampling{
		Temperature:       []float32{0, 0.5, 1, 2}[rnd.IntN(4)],
		TopP:              []float32{0, 0.9}[rnd.IntN(2)],
		TopK:              []int{0, 1, 20}[rnd.IntN(3)],
		MinP:              []float32{0, 0.05, 0.5}[rnd.IntN(3)],
		RepetitionPenalty: []float32{0, 1, 0.5, 1.3, 10}[rnd.IntN(5)],
		FrequencyPenalty:  []float32{0, 0, 0.3, 2, -2}[rnd.IntN(5)],
		PresencePenalty:   []float32{0, 0, 0.7, 2, -2}[rnd.IntN(5)],
		Seed:              rnd.Uint64(),
	}
	for _, t := range rnd.Perm(n)[:rnd.IntN(min(n, 5))] {
		p.Bias = append(p.Bias, sequence.Bias{Token: sequence.Token(t), Bias: float32(rnd.IntN(201) - 100)})
	}
	return p
}

func tokens(rnd *rand.Rand, n, vocab int) []sequence.Token {
	out := make([]sequence.Token, n)
	for i := range out {
		out[i] = sequence.Token(rnd.IntN(vocab))
	}
	return out
}

func TestDrawEqualsTheDefinitionOfBiasAndPenalties(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	var s Sampler
	for round := range 2000 {
		n := 5 + rnd.IntN(200)
		p, prompt := anyAdjusting(rnd, n), tokens(rnd, rnd.IntN(20), n)
		generated := tokens(rnd, rnd.IntN(10), n)
		split := rnd.IntN(len(generated) + 1) // as if another worker had generated the first of them
		history := NewHistory(&p, prompt, generated[:split])
		for _, g := range generated[split:] {
			history.Add(g)
		}
		for step := range 3 {
			logits := model(rnd, n)
			logits[rnd.IntN(n)] = float32(math.Inf(-1))
			banned := append(tokens(rnd, rnd.IntN(2), n), sequence.Token(n)) // one of them is beyond the vocabulary
			banned = append(banned, banned[0])                               // and one is there twice
			want := naive(adjusted(logits, p, prompt, generated, banned), p, round, step)
			before := slices.Clone(logits)
			got, err := s.Draw(logits, p, Turn{Choice: round, Position: step, History: history, Banned: banned})
			if err != nil || got != want {
				t.Fatalf("round %d, %+v over %d tokens: %d, %v, want %d", round, p, n, got, err, want)
			}
			if !slices.Equal(logits, before) {
				t.Fatalf("round %d: the logits were changed", round)
			}
			generated = append(generated, got)
			history.Add(got)
		}
	}
}

func TestHistoryIsNilWhereNothingLooksAtIt(t *testing.T) {
	for _, p := range []sequence.Sampling{{}, {Temperature: 1, TopP: 0.5, TopK: 3, MinP: 0.1}, {RepetitionPenalty: 1}} {
		h := NewHistory(&p, []sequence.Token{1}, nil)
		if h != nil {
			t.Errorf("%+v has a history", p)
		}
		h.Add(1)
	}
}

func TestHistoryGrowsByDistinctTokensThatAreLookedAt(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	prompt, generated := tokens(rnd, 5000, 50), tokens(rnd, 5000, 10)
	bias := []sequence.Bias{{Token: 99, Bias: 1}, {Token: 3, Bias: 1}}
	for _, c := range []struct {
		p    sequence.Sampling
		want int
	}{
		{sequence.Sampling{RepetitionPenalty: 2, Bias: bias}, 51},
		{sequence.Sampling{FrequencyPenalty: 1, Bias: bias}, 11},
		{sequence.Sampling{PresencePenalty: 1}, 10},
		{sequence.Sampling{Bias: bias}, 2},
	} {
		if got := len(NewHistory(&c.p, prompt, generated).entries); got != c.want {
			t.Errorf("%+v: %d entries, want %d", c.p, got, c.want)
		}
	}
}

func TestAPenaltyWithoutAHistoryIsAnError(t *testing.T) {
	for _, p := range []sequence.Sampling{{RepetitionPenalty: 2}, {FrequencyPenalty: 1}, {PresencePenalty: 1}, {Bias: make([]sequence.Bias, 1)}} {
		if _, err := new(Sampler).Draw([]float32{1}, p, Turn{}); err == nil || !strings.Contains(err.Error(), "history") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestATinyRepetitionPenaltyLeavesLogitsFinite(t *testing.T) {
	p := sequence.Sampling{Temperature: 1, RepetitionPenalty: math.SmallestNonzeroFloat32}
	at := Turn{History: NewHistory(&p, []sequence.Token{1}, nil)}
	if got, err := new(Sampler).Draw([]float32{14, 3, 9}, p, at); err != nil || got != 1 {
		t.Errorf("%d, %v, want 1", got, err)
	}
}

func TestBanningEveryTokenSaysSo(t *testing.T) {
	_, err := new(Sampler).Draw([]float32{2, 1}, sequence.Sampling{}, Turn{Position: 4, Banned: []sequence.Token{1, 0}})
	want := "draw the token at position 4: the highest logit, of token 0, is -Inf, want a finite one (2 tokens must not be drawn yet)"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestATokenBeyondTheLogitsIsNotDrawn(t *testing.T) {
	p := sequence.Sampling{Bias: []sequence.Bias{{Token: 0, Bias: 5}, {Token: 2, Bias: 9}}}
	logits := []float32{1, 2}
	if got, err := new(Sampler).Draw(logits, p, Turn{History: NewHistory(&p, nil, nil)}); err != nil || got != 0 || logits[0] != 1 {
		t.Errorf("%d, %v, and the logits are %v", got, err, logits)
	}
}

func TestAdjustedDrawsDoNotAllocate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	logits := model(rnd, 5000)
	p := sequence.Sampling{Temperature: 1, MinP: 0.05, RepetitionPenalty: 1.1, PresencePenalty: 1, Bias: make([]sequence.Bias, 1)}
	at := Turn{History: NewHistory(&p, tokens(rnd, 1000, 5000), nil), Banned: []sequence.Token{2}}
	var s Sampler
	draw := func() {
		token, err := s.Draw(logits, p, at)
		if err != nil {
			t.Fatal(err)
		}
		at.History.Add(token)
	}
	for range 500 { // the history takes in what is likely
		draw()
	}
	if n := testing.AllocsPerRun(50, draw); n > 0.1 {
		t.Errorf("%v allocations per draw", n)
	}
}

// FuzzDraw holds draws from few and odd logits against the definition.
func FuzzDraw(f *testing.F) {
	f.Add(uint64(1), []byte{1, 200, 30, 30}, []byte{0, 3, 3}, uint8(2))
	f.Add(uint64(9), []byte{255, 255, 0, 127, 128}, []byte{4, 1}, uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, row, past []byte, split uint8) {
		if len(row) < 2 {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		logits, n := make([]float32, len(row)), len(row)
		for i, b := range row {
			logits[i] = float32(int8(b)) / 8
		}
		p, all := anyAdjusting(rnd, n), make([]sequence.Token, len(past))
		for i, b := range past {
			all[i] = sequence.Token(int(b) % n)
		}
		border := min(int(split), len(all))
		banned := []sequence.Token{sequence.Token(rnd.IntN(n))}
		at := Turn{History: NewHistory(&p, all[:border], all[border:]), Banned: banned}
		got, err := new(Sampler).Draw(logits, p, at)
		if want := naive(adjusted(logits, p, all[:border], all[border:], banned), p, 0, 0); err != nil || got != want {
			t.Errorf("%+v: %d, %v, want %d", p, got, err, want)
		}
	})
}

func BenchmarkAdjustedDraw(b *testing.B) {
	rnd := rand.New(rand.NewPCG(9, 10))
	logits := model(rnd, vocab)
	penalties := sequence.Sampling{RepetitionPenalty: 1.1, FrequencyPenalty: 0.5, PresencePenalty: 0.5}
	bias := sequence.Sampling{Bias: make([]sequence.Bias, MaxBiases)}
	for i := range bias.Bias {
		bias.Bias[i] = sequence.Bias{Token: sequence.Token(i * 7), Bias: 1}
	}
	for _, c := range []struct {
		name   string
		p      sequence.Sampling
		prompt int
	}{{"penalties/prompt100", penalties, 100}, {"penalties/prompt8000", penalties, 8000}, {"bias1024", bias, 100}, {"min_p", sequence.Sampling{Temperature: 0.8, MinP: 0.05}, 0}} {
		b.Run(fmt.Sprintf("vocab%d/%s", vocab, c.name), func(b *testing.B) {
			var s Sampler
			h := NewHistory(&c.p, tokens(rnd, c.prompt, vocab), tokens(rnd, 200, vocab))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := s.Draw(logits, c.p, Turn{Position: i, History: h}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHistory(b *testing.B) {
	rnd := rand.New(rand.NewPCG(9, 10))
	p := sequence.Sampling{RepetitionPenalty: 1.1}
	b.Run("add", func(b *testing.B) {
		all := tokens(rnd, 1<<12, vocab)
		h := NewHistory(&p, all, nil)
		for i := 0; b.Loop(); i++ {
			h.Add(all[i&(1<<12-1)])
		}
	})
	b.Run("new/prompt8000", func(b *testing.B) {
		prompt := tokens(rnd, 8000, vocab)
		b.ReportAllocs()
		for b.Loop() {
			NewHistory(&p, prompt, nil)
		}
	})
}
