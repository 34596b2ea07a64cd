// Package speed learns what local and remote prefills take on this decode worker, from
// what the scheduler and the prefill workers report and from whole requests by the clock.
//
// It decides nothing (that is disagg's) and asks nobody. Every estimate is an exponentially
// weighted mean behind a median of three, so that one outlier changes nothing and a lasting
// change counts from its second sample on; that of decode steps is a plane over how many
// sequences they hold and how many tokens those attend to. An estimate that got no sample for
// five minutes fades back to its start value, half of the rest every two minutes, so that what
// was given up is tried again. It also says when the other way is due for a look.
//
// A start value is relative to what is known: an engine that was not measured yet is taken
// to be like its peer, whose KV format is the same, and a prefill worker to need half of
// the decode worker's time for a token until measured, because nothing decodes there.
// The first hand-off is taken to cost what that saves on one block of tokens. So at first
// what fills more than one block goes remote, as with the policy threshold, and one look
// replaces half of the belief.
//
// It starts no goroutine. Its methods may be called from any; none waits for anything but
// one short lock, and what a decision needs takes constant time.
package speed

import (
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/plane"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// Start is what is believed before anything was measured.
type Start struct {
	// BlockTokens and StepTokens are of the decode worker's pool and scheduler.
	BlockTokens, StepTokens int
	// LocalToken is the time of one prompt row; Step that of a decode step, StepSequence what a sequence
	// adds to it, StepToken what a token adds that one attends to, in nanoseconds.
	LocalToken, Step, StepSequence time.Duration
	StepToken                      float64
	// Told says that the engine itself gave these four.
	Told bool
	// JobTokens is the length of the prompts that wait in the queue.
	JobTokens int
	// LinkBytesPerSecond and LinkLatency are of the transfers between workers. Probes replace
	// both; transfers teach the bandwidth only.
	LinkBytesPerSecond float64
	LinkLatency        time.Duration
}

// DefaultStart is about what the CPU engine does with a model of 135 million weights on two
// cores, beside memory that is shared on one host.
func DefaultStart(blockTokens, stepTokens int) Start {
	return Start{
		BlockTokens: blockTokens, StepTokens: stepTokens,
		LocalToken: 5 * time.Millisecond, Step: 7 * time.Millisecond, StepSequence: 7 * time.Millisecond,
		JobTokens: 256, LinkBytesPerSecond: 1e9, LinkLatency: 100 * time.Microsecond,
	}
}

// remoteShare is what a prefill worker is taken to need of the decode worker's time for a
// token until it was measured.
const remoteShare = 0.5

// Learner keeps the estimates of one decode worker. Times are in seconds.
type Learner struct {
	start Start

	mu             sync.Mutex // guards all below
	localToken     estimate
	localOverhead  estimate
	remoteToken    estimate
	remoteOverhead estimate
	admission      estimate
	job            estimate
	byteTime       estimate
	writeTail      estimate
	steps          steps
	links          links
	startByteTime  float64 // of the links, until transfers have told
	linkLatency    float64
	look           look
	seen           scheduler.Report
	attached       uint64
}

// New makes a learner that has seen nothing.
func New(start Start) *Learner {
	l := &Learner{start: start, links: make(links)}
	l.steps.start = plane.Plane{Fixed: start.Step.Seconds(), Sequence: start.StepSequence.Seconds(), Token: start.StepToken / 1e9}
	l.believe()
	return l
}

// DecodeStep is how long a step without prompts takes: Step + n·Sequence + t·Token for n sequences that
// attend to t tokens together. Token is in nanoseconds.
type DecodeStep struct {
	Step, Sequence time.Duration
	Token          float64
}

// DecodeStep is what is believed now.
func (l *Learner) DecodeStep(now time.Time) DecodeStep {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.steps.value(now)
	return DecodeStep{seconds(s.Fixed), seconds(s.Sequence), s.Token * 1e9}
}

// Speeds are what is believed now.
func (l *Learner) Speeds(now time.Time) disagg.Speeds {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.speeds(now)
}

// Measured are the speeds once a prompt was computed, here or elsewhere, and a step was made: not before are
// they more than a belief, unless the engine told them.
func (l *Learner) Measured(now time.Time) (s disagg.Speeds, local, remote bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	local, remote = l.localToken.weight > 0, l.remoteToken.weight > 0
	stepped := l.steps.samples.Weight > 0 || l.start.Told
	return l.speeds(now), (local || l.start.Told) && stepped, remote && stepped
}

func (l *Learner) speeds(now time.Time) disagg.Speeds {
	s := &l.start
	first := s.LocalToken.Seconds()
	local := l.localToken.value(now, l.remoteToken.value(now, first))
	remote := l.remoteToken.value(now, remoteShare*l.localToken.value(now, first))
	step := l.steps.value(now)
	return disagg.Speeds{
		LocalToken: seconds(local), RemoteToken: seconds(remote),
		Step: seconds(step.Fixed), StepSequence: seconds(step.Sequence + step.Token*l.perSequence()),
		LocalOverhead:      seconds(l.localOverhead.value(now, 0)),
		RemoteOverhead:     seconds(l.remoteOverhead.value(now, (1-remoteShare)*local*float64(s.BlockTokens))),
		Admission:          seconds(l.admission.value(now, 0)),
		Job:                seconds(l.job.value(now, remote*float64(s.JobTokens))),
		LinkBytesPerSecond: 1 / l.byteTime.value(now, l.startByteTime), LinkLatency: seconds(l.linkLatency),
		WriteTail: l.writeTail.value(now, 1),
	}
}

// perSequence is how many tokens the sequences of the last steps attended to; before any, those of a
// usual prompt.
func (l *Learner) perSequence() float64 {
	if l.steps.samples.Weight == 0 {
		return float64(l.start.JobTokens)
	}
	return l.steps.samples.PerSequence()
}

// seconds rounds up, so that no belief becomes 0.
func seconds(s float64) time.Duration { return time.Duration(min(s, 86400)*1e9 + 0.999) }
