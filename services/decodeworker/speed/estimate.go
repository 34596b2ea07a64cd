package speed

import (
	"math"
	"time"
)

const (
	// firstGain is a new sample's weight until the start value counts for little, and where
	// samples are rare: what was believed for long may have changed in between.
	firstGain = 0.5
	// gain is a sample's weight otherwise: the last ten make up 89 %.
	gain = 0.2
	// settled is the weight of samples from which on gain holds, if they come within soon.
	settled = 0.9
	soon    = 20 * time.Second
	// stride bounds what a sample may then differ from what is believed, as a factor.
	stride = 2
	// keepFor is how long samples count in full after the last one.
	keepFor = 5 * time.Minute
	// halfLife is how fast they give way to the start value after that.
	halfLife = 2 * time.Minute
)

// estimate is an exponentially weighted mean. What the samples do not make up is the start
// value's, which the reader gives: it may itself be an estimate.
type estimate struct {
	sum    float64 // of the samples, weighted
	weight float64 // of the samples, 0 to 1
	last   time.Time
	recent window
}

// add takes in a sample, filtered by the window. A sample that is no number of at least 0 is none.
func (e *estimate) add(now time.Time, sample float64) {
	often := e.weight >= settled && now.Sub(e.last) <= soon
	e.take(now, sample, often)
}

// take is add; with often the sample counts less and only within a stride.
func (e *estimate) take(now time.Time, sample float64, often bool) {
	if !usable(sample) {
		return
	}
	keep := e.keep(now)
	if keep < 0.5 {
		e.recent = window{}
	}
	e.sum, e.weight = keep*e.sum, keep*e.weight
	if now.After(e.last) {
		e.last = now
	}
	sample, known := e.recent.filter(sample)
	if !known {
		return
	}
	g := firstGain
	if often {
		g = gain
		sample = bounded(sample, e.sum/e.weight)
	}
	e.sum = (1-g)*e.sum + g*sample
	e.weight = (1-g)*e.weight + g
}

// value is what is believed now.
func (e *estimate) value(now time.Time, start float64) float64 {
	keep := e.keep(now)
	return keep*e.sum + (1-keep*e.weight)*start
}

// keep is the share of their weight that the samples still have.
func (e *estimate) keep(now time.Time) float64 { return fading(now.Sub(e.last)) }

func fading(age time.Duration) float64 {
	if age <= keepFor {
		return 1
	}
	return math.Exp2(-float64(age-keepFor) / float64(halfLife))
}

// bounded is a sample no further from what is believed than a stride.
func bounded(sample, believed float64) float64 {
	if believed == 0 {
		return sample
	}
	return max(believed/stride, min(believed*stride, sample))
}

func usable(x float64) bool { return x >= 0 && !math.IsInf(x, 1) && !math.IsNaN(x) }

// window makes one outlier harmless: it passes on the median of the last three samples,
// of two the lower one, because what goes wrong with a time makes it longer, and of one
// none. A lasting change passes with its second sample.
type window struct {
	samples [3]float64
	count   int
}

func (w *window) filter(sample float64) (float64, bool) {
	w.samples[w.count%3] = sample
	w.count++
	a, b, c := w.samples[0], w.samples[1], w.samples[2]
	switch w.count {
	case 1:
		return 0, false
	case 2:
		return min(a, b), true
	}
	return max(min(a, b), min(max(a, b), c)), true
}
