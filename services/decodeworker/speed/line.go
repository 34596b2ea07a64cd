package speed

import "time"

// line is an exponentially weighted least-squares fit of y = fixed + slope·x, for x and y
// above 0. While x has not varied, which leaves the slope open, fixed and slope have the
// ratio of the start values.
type line struct {
	weight                 float64 // of the samples, 0 to 1
	x, y, xx, xy           float64 // weighted sums
	last                   time.Time
	recent                 window // of y by what the line said
	startFixed, startSlope float64
}

// slopePrior is how much the start's slope counts beside what was seen, as a variance of x.
const slopePrior = 0.25

// add takes in a sample.
func (l *line) add(now time.Time, x, y float64) {
	if !usable(x) || !usable(y) || y == 0 {
		return
	}
	fixed, slope := l.value(now)
	keep, often := fading(now.Sub(l.last)), l.weight >= settled && now.Sub(l.last) <= soon
	if keep < 0.5 {
		l.recent = window{}
	}
	l.scale(keep)
	if now.After(l.last) {
		l.last = now
	}
	said := fixed + slope*x
	ratio, known := l.recent.filter(y / said)
	if !known {
		return
	}
	g := firstGain
	if often {
		g = gain
		ratio = bounded(ratio, 1)
	}
	y = said * ratio
	l.scale(1 - g)
	l.weight += g
	l.x, l.y = l.x+g*x, l.y+g*y
	l.xx, l.xy = l.xx+g*x*x, l.xy+g*x*y
}

func (l *line) scale(by float64) {
	l.weight, l.x, l.y, l.xx, l.xy = by*l.weight, by*l.x, by*l.y, by*l.xx, by*l.xy
}

// value is the line now.
func (l *line) value(now time.Time) (fixed, slope float64) {
	if l.weight == 0 {
		return l.startFixed, l.startSlope
	}
	x, y := l.x/l.weight, l.y/l.weight
	variance, covariance := max(0, l.xx/l.weight-x*x), l.xy/l.weight-x*y
	// Through the mean point, with the ratio of the start values.
	slope = y * l.startSlope / (l.startFixed + l.startSlope*x)
	slope = (covariance + slopePrior*slope) / (variance + slopePrior)
	if x > 0 {
		slope = min(slope, y/x)
	}
	slope = max(0, slope)
	fixed = y - slope*x
	w := l.weight * fading(now.Sub(l.last))
	return w*fixed + (1-w)*l.startFixed, w*slope + (1-w)*l.startSlope
}
