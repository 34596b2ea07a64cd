package router

import (
	"math"
	"time"

	"github.com/switchyard-llm/switchyard/libs/plane"
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

// at is a decode step of n sequences of together t tokens.
func (r *rates) at(n, t float64) float64 { return r.step + r.sequence*n + r.stepRows*t }

// inBlocks counts blocks: those to compute, and those of running sequences once each.
func inBlocks(blockTokens int) rates {
	return rates{token: 1 / float64(blockTokens), stepRows: 1 / float64(blockTokens), blocks: true}
}

// pace is what the workers of a group have told of their speed, taken together. One worker's word
// is about the few prompts and steps that it saw last: a line through steps of nearly the same number
// of sequences has any slope, and a token of a short prompt seems slow. Costs that differ by such
// errors keep requests from a worker, which then never learns better. Workers that carry different
// loads, some few long sequences, some many short ones, tell the plane between them.
type pace struct {
	samples        float64
	fixed, token   float64       // means
	sequence, rows float64       // means of what they say that a sequence, and a token of one, adds to a step
	steps          plane.Moments // milliseconds that they say of steps as they run
}

const (
	// paceMemory is how many samples count in full, of all workers of a group together.
	paceMemory = 512
	// ownSlopes is how much their mean slopes count beside the plane, as a variance of the sequences.
	ownSlopes = 1
)

// add takes in a worker's word, which holds best for the sequences that it runs, and their tokens.
func (p *pace) add(r rates, running, tokens float64) {
	p.samples++
	gain := max(1/p.samples, 1.0/paceMemory)
	mean := func(m *float64, x float64) { *m += gain * (x - *m) }
	mean(&p.fixed, r.fixed)
	mean(&p.token, r.token)
	mean(&p.rows, r.stepRows)
	mean(&p.sequence, r.sequence)
	p.steps.Fade(1 - gain)
	p.steps.Add(gain, running, tokens, r.at(running, tokens))
}

// rates are the group's.
func (p *pace) rates() rates {
	s := p.steps.Fit(plane.Plane{Sequence: p.sequence, Token: p.rows}, ownSlopes)
	return rates{fixed: p.fixed, token: p.token, step: s.Fixed, sequence: s.Sequence, stepRows: s.Token}
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

func (q *ratio) add(own, group rates, running, tokens float64) {
	mine, theirs := own.at(running, tokens), group.at(running, tokens)
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
