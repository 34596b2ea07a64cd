// Package plane fits what a decode step takes, Fixed + Sequence·n + Token·t for n sequences that attend to t tokens
// together, by weighted least squares.
//
// While all sequences are about as long, n and t are one thing seen twice, and neither says anything
// while it does not vary. So a fit has a prior, to which it keeps as far as samples leave the slopes
// open. What samples do tell, it follows: the sum of both slopes, say, long before each of them.
//
// It knows no clock and no unit, and starts no goroutine. Moments belong to their caller.
package plane

// Plane is Fixed + Sequence·n + Token·t.
type Plane struct{ Fixed, Sequence, Token float64 }

// At is the time of a step of n sequences that attend to t tokens together.
func (p Plane) At(n, t float64) float64 { return p.Fixed + p.Sequence*n + p.Token*t }

// Times is the plane that is so many times as high.
func (p Plane) Times(x float64) Plane { return Plane{x * p.Fixed, x * p.Sequence, x * p.Token} }

// Plus is the sum of two planes.
func (p Plane) Plus(q Plane) Plane {
	return Plane{p.Fixed + q.Fixed, p.Sequence + q.Sequence, p.Token + q.Token}
}

// Moments are what a fit needs of its samples. The zero value has seen none.
type Moments struct {
	// Weight is that of the samples together.
	Weight float64
	// Sequences, Tokens and Time are the samples' means.
	Sequences, Tokens, Time float64

	nn, nt, tt, ny, ty float64 // their variances and covariances
}

// Fade makes the samples so far weigh so many times as much.
func (m *Moments) Fade(by float64) { m.Weight *= by }

// Add takes in a sample of a weight above 0: a step of n sequences that attend to t tokens took y.
func (m *Moments) Add(weight, n, t, y float64) {
	m.Weight += weight
	share := weight / m.Weight
	n, t, y = n-m.Sequences, t-m.Tokens, y-m.Time
	m.Sequences, m.Tokens, m.Time = m.Sequences+share*n, m.Tokens+share*t, m.Time+share*y
	add := func(c *float64, product float64) { *c = (1 - share) * (*c + share*product) }
	add(&m.nn, n*n)
	add(&m.nt, n*t)
	add(&m.tt, t*t)
	add(&m.ny, n*y)
	add(&m.ty, t*y)
}

// PerSequence is how many tokens a sequence attends to on average; 0 before there were any.
func (m *Moments) PerSequence() float64 {
	if m.Sequences <= 0 {
		return 0
	}
	return m.Tokens / m.Sequences
}

// Fit is the best plane through the samples' mean, of which there must be one, where the slopes of the prior
// count as if further samples with this variance of n, above 0, had told them: of t with as much, in
// sequences of the mean length. It is ridge regression towards the prior. No parameter is below 0.
func (m *Moments) Fit(prior Plane, variance float64) Plane {
	// In sequences of the mean length, n and t weigh the same.
	unit := m.PerSequence()
	if unit == 0 {
		unit = 1
	}
	nn, nt, tt := m.nn+variance, m.nt/unit, m.tt/(unit*unit)+variance
	ny, ty := m.ny+variance*prior.Sequence, m.ty/unit+variance*prior.Token*unit
	det := nn*tt - nt*nt
	sequence, token := (tt*ny-nt*ty)/det, (nn*ty-nt*ny)/det
	if sequence < 0 && ty > 0 { // on the edge of what may be, each is the best alone
		sequence, token = 0, ty/tt
	} else if sequence < 0 || token < 0 {
		sequence, token = max(0, ny/nn), 0
	}
	token /= unit
	if slopes := sequence*m.Sequences + token*m.Tokens; slopes > m.Time {
		sequence, token = sequence*m.Time/slopes, token*m.Time/slopes
	}
	return Plane{max(0, m.Time-sequence*m.Sequences-token*m.Tokens), sequence, token}
}
