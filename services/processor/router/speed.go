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

// pace is what the workers of a group have told of their speed, taken together. One worker's word
// is about the few prompts and steps that it saw last: a line through steps of nearly the same number
// of sequences has any slope, and a token of a short prompt seems slow. Costs that differ by such
// errors keep requests from a worker, which then never learns better. Workers that carry different
// loads tell the line between them.
type pace struct {
	samples            float64
	fixed, token, rows float64 // means
	slope              float64 // mean of what they say a sequence adds to a step
	x, y, xx, xy       float64 // means over steps: y milliseconds with x sequences
}

const (
	// paceMemory is how many samples count in full, of all workers of a group together.
	paceMemory = 512
	// ownSlope is how much the mean slope counts beside the line, as a variance of x.
	ownSlope = 1
)

// add takes in a worker's word, which holds best for the number of sequences that it runs.
func (p *pace) add(r rates, running float64) {
	p.samples++
	gain := max(1/p.samples, 1.0/paceMemory)
	y := r.step + r.sequence*running
	mean := func(m *float64, x float64) { *m += gain * (x - *m) }
	mean(&p.fixed, r.fixed)
	mean(&p.token, r.token)
	mean(&p.rows, r.stepRows)
	mean(&p.slope, r.sequence)
	mean(&p.x, running)
	mean(&p.y, y)
	mean(&p.xx, running*running)
	mean(&p.xy, running*y)
}

// rates are the group's.
func (p *pace) rates() rates {
	variance := max(0, p.xx-p.x*p.x)
	slope := max(0, (p.xy-p.x*p.y+ownSlope*p.slope)/(variance+ownSlope))
	if p.x > 0 {
		slope = min(slope, p.y/p.x)
	}
	return rates{fixed: p.fixed, token: p.token, stepRows: p.rows, sequence: slope, step: p.y - slope*p.x}
}

// ratio is how much slower than its group a worker is, in logarithms, as its decode steps
// tell. Prompts tell less: what a token of one takes depends on how long it was.
type ratio struct{ samples, step float64 }

const (
	// ratioSamples is how many samples it takes to believe that a worker is unlike its group, and
	// ratioMemory how many count in full.
	ratioSamples = 16
	ratioMemory  = 32
	// ratioNoise is the factor up to which a worker is taken to be like its group; beyond ratioMost one
	// sample tells no more.
	ratioNoise = 2
	ratioMost  = 8
)

func (q *ratio) add(own, group rates, running float64) {
	mine, theirs := own.step+own.sequence*running, group.step+group.sequence*running
	if mine <= 0 || theirs <= 0 {
		return
	}
	q.samples++
	gain := max(1/q.samples, 1.0/ratioMemory)
	q.step += gain * (math.Log(max(1.0/ratioMost, min(ratioMost, mine/theirs))) - q.step)
}

// factor is what the group's times are multiplied by.
func (q *ratio) factor() float64 {
	if q.samples < ratioSamples || math.Abs(q.step) < math.Log(ratioNoise) {
		return 1
	}
	return math.Exp(q.step)
}
