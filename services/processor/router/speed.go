package router

import (
	"math"
	"time"
)

// outputsStart is how many tokens an answer is expected to have before any has ended.
const outputsStart = 256

// outputsGain is the weight of the latest answer's length in the mean.
const outputsGain = 0.02

// Speed predicts what a worker needs; the zero value says that it is not known.
type Speed struct {
	// A prompt of n uncached tokens is computed in PrefillFixed + n·PrefillToken.
	PrefillFixed, PrefillToken time.Duration
	// A step that gives n sequences of together t tokens the next one takes Step +
	// n·StepSequence + t·StepToken; StepToken is in nanoseconds, since it is a fraction of one.
	Step, StepSequence time.Duration
	StepToken          float64
}

func (s Speed) known() bool { return s.PrefillToken > 0 && s.Step > 0 }

// rates is a Speed in milliseconds, or in blocks.
type rates struct {
	fixed, token             float64 // of a prompt
	step, sequence, stepRows float64 // of a decode step
	blocks                   bool
}

func (s Speed) rates() rates {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return rates{
		fixed: ms(s.PrefillFixed), token: ms(s.PrefillToken), step: ms(s.Step), sequence: ms(s.StepSequence),
		stepRows: s.StepToken / float64(time.Millisecond),
	}
}

// inBlocks counts blocks: those to compute, and those of running sequences once each.
func inBlocks(blockTokens int) rates {
	return rates{token: 1 / float64(blockTokens), stepRows: 1 / float64(blockTokens), blocks: true}
}

func (r *rates) add(o rates, times float64) {
	r.fixed, r.token = r.fixed+times*o.fixed, r.token+times*o.token
	r.step, r.sequence, r.stepRows = r.step+times*o.step, r.sequence+times*o.sequence, r.stepRows+times*o.stepRows
}

func (r rates) over(n float64) rates {
	if n == 0 {
		return rates{}
	}
	return rates{fixed: r.fixed / n, token: r.token / n, step: r.step / n, sequence: r.sequence / n, stepRows: r.stepRows / n}
}

// Workers of one model mostly differ by the noise of what they have measured. One that happened to look slow
// would get nothing any more, and so never learn better. Up to a factor of likeUsual a worker is taken to be like
// the others; from unlikeUsual on its own word counts in full. What lies between is made up by its queue.
const (
	likeUsual   = 1.5
	unlikeUsual = 3
)

// temper draws the rates to the usual ones as far as they are like them: those of prompts by the time
// of a token, those of steps by the time of a step.
func (r *rates) temper(usual *rates) {
	own := apart(r.token, usual.token)
	r.fixed, r.token = mix(usual.fixed, r.fixed, own), mix(usual.token, r.token, own)
	own = apart(r.step+r.sequence, usual.step+usual.sequence)
	r.step, r.sequence, r.stepRows = mix(usual.step, r.step, own), mix(usual.sequence, r.sequence, own), mix(usual.stepRows, r.stepRows, own)
}

// apart says how far two times differ beyond likeUsual, up to 1 at unlikeUsual.
func apart(a, b float64) float64 {
	d := math.Abs(math.Log(a / b))
	return min(1, max(0, (d-math.Log(likeUsual))/math.Log(unlikeUsual/likeUsual)))
}

func mix(usual, own, share float64) float64 { return usual + share*(own-usual) }

// moved says whether a mean differs from an older one by more than its noise.
func (r *rates) moved(from *rates) bool {
	const noise = 0.05
	far := func(a, b float64) bool { return math.Abs(a-b) > noise*math.Abs(b) }
	return far(r.token, from.token) || far(r.step+r.sequence, from.step+from.sequence) || far(r.stepRows, from.stepRows)
}
