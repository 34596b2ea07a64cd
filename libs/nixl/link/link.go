// Package link estimates how long a transfer between two ends will take: Class is what
// they share, Estimate what is expected of them, Link what was learnt of one pair.
//
// It moves and measures nothing: a prober, and whoever waits for transfers, tell a Link
// what they saw. It has no I/O, no clock and no goroutine.
package link

import (
	"math"
	"sync"
	"time"
)

// Estimate is the time of a transfer as a straight line: Latency, and then its bytes
// at BytesPerSecond.
type Estimate struct {
	BytesPerSecond float64
	Latency        time.Duration
}

// Predict is how long a transfer will take. Without a positive speed that is for ever.
func (e Estimate) Predict(bytes int) time.Duration {
	if bytes <= 0 {
		return e.Latency
	}
	if !(e.BytesPerSecond > 0) {
		return math.MaxInt64
	}
	return saturated(float64(e.Latency) + float64(bytes)/e.BytesPerSecond*1e9)
}

func saturated(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

const (
	// tinyBytes is the size up to which a transfer says nothing about bandwidth, however
	// long it took.
	tinyBytes = 16 << 10
	// tells is how many latencies a transfer must last to say something about bandwidth:
	// of four, a latency that is wrong by half shifts the bandwidth by a sixth.
	tells = 4
	// weight is that of a new value in the moving averages.
	weight = 0.25
)

// Link learns the Estimate of one pair, in one direction, from the transfers observed.
// Its methods may be called concurrently.
//
// Each observation counts for one of the two numbers. A transfer that lasts many
// latencies, or less than the bandwidth alone would allow, tells the bandwidth. All others
// tell the latency, and so do those of 16 KiB and less: a prober sends a tiny one and a large one.
// What is observed under load is what the next transfer under load will get.
type Link struct {
	mu      sync.Mutex
	latency average // seconds
	perByte average // seconds a byte: its mean, unlike that of bandwidths, predicts durations
}

// New gives a link about which only the start is known, such as its class's.
// A start without positive speed is replaced by that of the worst class.
func New(start Estimate) *Link {
	if !(start.BytesPerSecond > 0) || start.Latency < 0 || math.IsInf(start.BytesPerSecond, 0) {
		start = Unknown.Start()
	}
	return &Link{
		latency: average{value: start.Latency.Seconds()},
		perByte: average{value: 1 / start.BytesPerSecond},
	}
}

// Observe tells that a transfer of so many bytes took so long. Durations that cannot
// be are ignored.
func (l *Link) Observe(bytes int, took time.Duration) {
	if bytes < 0 || took <= 0 {
		return
	}
	d, b := took.Seconds(), float64(bytes)
	l.mu.Lock()
	defer l.mu.Unlock()
	moving := b * l.perByte.value
	if bytes > tinyBytes && (d >= tells*l.latency.value || moving >= d) {
		l.perByte.add(moved(d, l.latency.value) / b)
		return
	}
	l.latency.add(max(0, d-moving))
}

// moved is how much of a transfer's time was spent moving. At least half was, else a latency
// that was learnt too high would make the link look infinitely fast.
func moved(took, latency float64) float64 { return max(took-latency, took/2) }

// Probed is what a probe tells: tiny transfers take the latency, and one of so many bytes, which
// should be many latencies, took so long.
func Probed(latency time.Duration, bytes int, took time.Duration) Estimate {
	return Estimate{float64(bytes) / moved(took.Seconds(), latency.Seconds()), latency}
}

// Estimate is what is expected now.
func (l *Link) Estimate() Estimate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Estimate{1 / l.perByte.value, saturated(l.latency.value * 1e9)}
}

// Predict is how long a transfer will take.
func (l *Link) Predict(bytes int) time.Duration { return l.Estimate().Predict(bytes) }

// Measured tells whether a bandwidth has been observed, rather than assumed.
func (l *Link) Measured() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.perByte.seen > 0
}

// average moves by the median of the last three values, so that one of them, whatever
// it is, cannot move it. The first value replaces the start.
type average struct {
	value  float64
	recent [3]float64
	seen   int
}

func (a *average) add(v float64) {
	a.recent[a.seen%3] = v
	a.seen++
	switch a.seen {
	case 1:
		a.value = v
	case 2:
		a.value = (a.recent[0] + a.recent[1]) / 2
	case 3:
		a.value = median(a.recent)
	default:
		a.value += weight * (median(a.recent) - a.value)
	}
	if a.seen == 6 {
		a.seen = 3 // keeps the place in recent, and no count can overflow
	}
}

func median(v [3]float64) float64 {
	return max(min(v[0], v[1]), min(max(v[0], v[1]), v[2]))
}
