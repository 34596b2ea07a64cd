package route

import (
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/services/decodeworker/speed"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// SpeedSource says where the speeds come from that workers report to the kv policy.
type SpeedSource string

const (
	// Fitted are straight lines through the timing model: what a worker knows at best.
	Fitted SpeedSource = "fitted"
	// Learned are what the product's own learner makes of the passes, each worker for itself.
	Learned SpeedSource = "learned"
)

var speedSources = []SpeedSource{Fitted, Learned}

// speedometer is one worker's word on its speed.
type speedometer struct {
	fitted  router.Speed
	learner *speed.Learner // nil: fitted
	seen    [2]uint64      // bookings and first tokens, when the learner last looked
}

func newSpeedometer(c *Config, from SpeedSource) *speedometer {
	fitted := fit(c)
	if from == Fitted {
		return &speedometer{fitted: fitted}
	}
	start := speed.DefaultStart(c.BlockTokens, c.PassTokens)
	start.LocalToken, start.Told = fitted.PrefillToken, true
	start.Step, start.StepSequence, start.StepToken = fitted.Step, fitted.StepSequence, fitted.StepToken
	return &speedometer{learner: speed.New(start)}
}

// fit draws a line through a whole pass of prompts, and one through decode steps with a
// pool that is empty and one that is half in use.
func fit(c *Config) router.Speed {
	prompt := c.Timing.Step(timing.Step{PromptTokens: c.PassTokens, PromptPairs: timing.Pairs(c.PassTokens, 0)})
	tokens := c.PoolBlocks * c.BlockTokens / 2
	empty := c.Timing.Step(timing.Step{Decoding: 1, ContextTokens: 1})
	half := c.Timing.Step(timing.Step{Decoding: 1, ContextTokens: int64(tokens), PoolUsed: 0.5})
	return router.Speed{
		PrefillToken: max(1, prompt/time.Duration(c.PassTokens)),
		Step:         max(1, empty), StepToken: float64(half-empty) / float64(tokens),
	}
}

// speed is told of each report. As in a decode worker, the learner looks at the counters when a
// request comes and when it gets its first token.
func (m *speedometer) speed(now time.Duration, r Report) router.Speed {
	if m.learner == nil {
		return m.fitted
	}
	if seen := [2]uint64{r.Accepted, r.Done.FirstTokens}; seen != m.seen {
		m.seen = seen
		m.learner.Steps(clock(now), scheduler.Report{
			Steps: r.Done.Passes, PromptTokens: r.Done.PromptTokens, GeneratedTokens: r.Done.Generated, ContextTokens: r.Done.Context,
			PrefillBusy: r.Done.PromptBusy, DecodeBusy: r.Done.DecodeBusy,
		}, 0)
	}
	s, known, _ := m.learner.Measured(clock(now))
	if !known {
		return router.Speed{}
	}
	step := m.learner.DecodeStep(clock(now))
	return router.Speed{PrefillFixed: s.LocalOverhead, PrefillToken: s.LocalToken, Step: step.Step, StepSequence: step.Sequence, StepToken: step.Token}
}

// clock is virtual time as the product's clock.
func clock(now time.Duration) time.Time { return time.Unix(0, 0).Add(now) }
