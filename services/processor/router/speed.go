package router

import "time"

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
