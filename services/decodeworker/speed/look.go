package speed

import (
	"math"
	"time"

	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

const (
	// surprise is by which factor an exploring look must differ from its prediction to ask
	// for another one at once: a median needs two samples to follow.
	surprise = 1.5
	// looksMax bounds the looks that follow one another, where nothing can be predicted.
	looksMax = 4
)

// look says when to explore.
type look struct {
	since int // decisions since the last one, or due
	row   int // looks that followed one another
}

// due is more decisions than any policy asks for.
const due = math.MaxInt32

// Prepare completes the facts of a decision with what was learnt.
func (l *Learner) Prepare(now time.Time, f *disagg.Facts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.Speeds, f.SinceExplored = l.speeds(now), l.look.since
}

// Decided counts a decision.
func (l *Learner) Decided(d *disagg.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case d.Reason.Explores():
		l.look.since = 0
		l.look.row++
	case l.look.since < due:
		l.look.since++
	}
}

// looked compares what an exploring decision came to with what was predicted.
func (l *Learner) looked(d *disagg.Decision, took time.Duration) {
	if !d.Reason.Explores() {
		return
	}
	said := d.LocalTTFT
	if d.Remote {
		said = d.RemoteTTFT
	}
	ratio := float64(took) / float64(max(1, said))
	if l.look.row < looksMax && (ratio > surprise || ratio*surprise < 1) {
		l.look.since = due
		return
	}
	l.look.row = 0
}
