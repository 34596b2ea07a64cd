package plane

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*math.Abs(want) {
		t.Errorf("%s is %v, want %v within %v %%", what, got, want, share*100)
	}
}

var truth = Plane{Fixed: 6, Sequence: 0.3, Token: 2e-5}

// steps adds what true steps take, as often as there are pairs of n and t.
func steps(m *Moments, pairs ...[2]float64) {
	for _, p := range pairs {
		m.Add(1, p[0], p[1], truth.At(p[0], p[1]))
	}
}

func TestStepsThatVaryTellThePlane(t *testing.T) {
	var m Moments
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		steps(&m, [2]float64{float64(1 + random.IntN(60)), float64(random.IntN(400_000))})
	}
	got := m.Fit(Plane{}, 0.25)
	near(t, "a step", got.Fixed, truth.Fixed, 0.02)
	near(t, "a sequence", got.Sequence, truth.Sequence, 0.02)
	near(t, "a token", got.Token, truth.Token, 0.02)
}

func TestWhatDoesNotVaryKeepsToThePrior(t *testing.T) {
	prior := Plane{Sequence: 0.1, Token: 1e-5}
	for _, tc := range []struct {
		name            string
		pairs           [][2]float64
		sequence, token float64
	}{
		{"one point", [][2]float64{{10, 20_000}, {10, 20_000}}, 0.1, 1e-5},
		{"only tokens", [][2]float64{{10, 20_000}, {10, 80_000}}, 0.1, 2e-5},
		{"only sequences", [][2]float64{{10, 50_000}, {40, 50_000}}, 0.3, 1e-5},
		// A sequence of 2,000 tokens adds 0.34; the prior says by how much its parts differ, 0.08.
		{"both together", [][2]float64{{10, 20_000}, {40, 80_000}}, 0.21, 0.13 / 2000},
		{"no sequences", [][2]float64{{0, 0}, {0, 0}}, 0.1, 1e-5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var m Moments
			steps(&m, tc.pairs...)
			got := m.Fit(prior, 0.25)
			near(t, "a sequence", got.Sequence, tc.sequence, 0.02)
			near(t, "a token", got.Token, tc.token, 0.02)
			near(t, "a step like the mean", got.At(m.Sequences, m.Tokens), m.Time, 1e-9)
		})
	}
}

func TestNewSamplesTakeTheOldOnesPlace(t *testing.T) {
	var m Moments
	for i := range 200 {
		n, tokens := float64(1+i%7), float64(1000*(i%11))
		p := truth
		if i >= 100 {
			p = truth.Times(3)
		}
		m.Fade(0.9)
		m.Add(0.1, n, tokens, p.At(n, tokens))
	}
	near(t, "the weight", m.Weight, 1, 1e-6)
	near(t, "a step", m.Fit(truth.Times(3), 0.1).Fixed, 18, 0.01)
}

// Whatever the samples are: the plane goes through their mean, falls nowhere, and no other
// within those bounds is nearer to samples and prior.
func TestNoOtherPlaneIsBetter(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 500 {
		var m Moments
		const variance = 0.25
		length := 1 + random.Float64()*1e5
		samples := make([][3]float64, 2+random.IntN(20))
		for i := range samples {
			n := float64(random.IntN(20))
			samples[i] = [3]float64{n, length * math.Abs(n*float64(round%3-1)+10*float64(round%5)*random.Float64()), random.ExpFloat64()}
			m.Add(1, samples[i][0], samples[i][1], samples[i][2])
		}
		prior := Plane{Sequence: random.Float64() / 10, Token: random.Float64() / length / 10}
		unit := m.PerSequence()
		if unit == 0 {
			unit = 1
		}
		loss := func(p Plane) float64 {
			a, b := p.Sequence-prior.Sequence, (p.Token-prior.Token)*unit
			sum := variance * (a*a + b*b)
			for _, s := range samples {
				d := s[2] - m.Time - p.Sequence*(s[0]-m.Sequences) - p.Token*(s[1]-m.Tokens)
				sum += d * d / float64(len(samples))
			}
			return sum
		}
		got := m.Fit(prior, variance)
		if !(got.Fixed >= 0 && got.Sequence >= 0 && got.Token >= 0) {
			t.Fatalf("round %d: %+v", round, got)
		}
		near(t, "the mean", got.At(m.Sequences, m.Tokens), m.Time, 1e-6)
		if got.Fixed <= 1e-9 { // the slopes were made less than the best
			continue
		}
		for range 20 {
			other := Plane{Sequence: max(0, got.Sequence+random.NormFloat64()/100), Token: max(0, got.Token+random.NormFloat64()/100/length)}
			if loss(other) < loss(got)-1e-9 {
				t.Fatalf("round %d: %+v has %v, %+v has %v", round, got, loss(got), other, loss(other))
			}
		}
	}
}

func BenchmarkFit(b *testing.B) {
	var m Moments
	steps(&m, [2]float64{10, 20_000}, [2]float64{40, 50_000})
	b.ReportAllocs()
	for b.Loop() {
		m.Fade(0.9)
		m.Add(0.1, 20, 30_000, 12)
		m.Fit(truth, 0.25)
	}
}
