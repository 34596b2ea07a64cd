package speed

import (
	"cmp"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/plane"
)

// steps fits the time of decode steps, in seconds, to the sequences in them and the tokens that those attend
// to. What the samples leave open has the ratio of the start values.
type steps struct {
	start   plane.Plane
	samples plane.Moments // of weight 0 to 1
	last    time.Time
	recent  [3]sample
	count   int // of the samples in recent, and before
}

// sample is a step of n sequences that attended to t tokens together, and took y.
type sample struct{ n, t, y float64 }

// over is how many times as long it took as a plane says.
func (x sample) over(p plane.Plane) float64 { return x.y / p.At(x.n, x.t) }

// slopePrior is how much the start's slopes count beside what was seen, as a variance of the
// sequences.
const slopePrior = 0.25

// add takes in a sample.
func (s *steps) add(now time.Time, x sample) {
	if !usable(x.n) || !usable(x.t) || !usable(x.y) || x.y == 0 {
		return
	}
	keep, often := fading(now.Sub(s.last)), s.samples.Weight >= settled && now.Sub(s.last) <= soon
	if keep < 0.5 {
		s.count = 0
	}
	s.samples.Fade(keep)
	if now.After(s.last) {
		s.last = now
	}
	s.recent[s.count%3] = x
	if s.count++; s.count == 1 {
		return
	}
	known := s.known()
	x = s.usual(known)
	g := firstGain
	if often {
		g = gain
		x.y = bounded(x.y, known.At(x.n, x.t))
	}
	s.samples.Fade(1 - g)
	s.samples.Add(g, x.n, x.t, x.y)
}

// outlier is the factor between a sample and the median of three, beyond which the median counts in its place.
const outlier = 1.5

// usual is to steps what a window is to an estimate, by how far samples lie above the plane. What lies nearer to the
// median counts itself: always the middle one would leave out those that bend the plane, and so prove
// any plane right. It is a whole sample, for the time of one with the sequences of another would bend it.
func (s *steps) usual(known plane.Plane) sample {
	recent, n := s.recent, min(s.count, 3)
	slices.SortFunc(recent[:n], func(a, b sample) int { return cmp.Compare(a.over(known), b.over(known)) })
	last, median := s.recent[(s.count-1)%3], recent[(n-1)/2]
	if ratio := last.over(known) / median.over(known); n == 3 && ratio < outlier && ratio > 1/outlier {
		return last
	}
	return median
}

// known is what the samples say; the start where there are none.
func (s *steps) known() plane.Plane {
	m := &s.samples
	if m.Weight == 0 {
		return s.start
	}
	return m.Fit(s.start.Times(m.Time/s.start.At(m.Sequences, m.Tokens)), slopePrior)
}

// value is what is believed now.
func (s *steps) value(now time.Time) plane.Plane {
	w := s.samples.Weight * fading(now.Sub(s.last))
	return s.known().Times(w).Plus(s.start.Times(1 - w))
}
