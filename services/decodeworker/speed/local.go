package speed

import (
	"time"

	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

const (
	// rowsPerStep is how many prompt rows a step must have held, on average, to tell what a
	// row takes: in smaller ones the step's own time hides it.
	rowsPerStep = 8
	// decodeSteps is how many steps without prompts must come to one with, in a report that
	// holds both, to tell what a decode step takes: how many held prompts is only estimated.
	decodeSteps = 8
)

// Steps learns from the scheduler's counters; attached is how many prompts were computed
// elsewhere so far. The closer the calls lie around prefills, the better.
func (l *Learner) Steps(now time.Time, r scheduler.Report, attached uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Steps <= l.seen.Steps {
		return // an older report came late
	}
	d := delta{
		steps: float64(r.Steps - l.seen.Steps), rows: float64(r.PromptTokens - l.seen.PromptTokens),
		tokens:  max(0, float64(r.GeneratedTokens-l.seen.GeneratedTokens)-float64(attached-min(attached, l.attached))),
		context: float64(r.ContextTokens - l.seen.ContextTokens),
		prefill: (r.PrefillBusy - l.seen.PrefillBusy).Seconds(), decode: (r.DecodeBusy - l.seen.DecodeBusy).Seconds(),
	}
	l.seen, l.attached = r, max(attached, l.attached)
	l.learnRows(now, d)
	l.learnStep(now, d)
}

// delta is what happened between two reports.
type delta struct{ steps, rows, tokens, context, prefill, decode float64 }

// sequences is how many decoded in a step, on average.
func (d delta) sequences() float64 { return d.tokens / d.steps }

// attended is how many tokens those attended to together.
func (d delta) attended() float64 { return d.context / d.steps }

// learnRows takes from the steps that held prompts what the steps themselves take.
func (l *Learner) learnRows(now time.Time, d delta) {
	if d.rows == 0 {
		return
	}
	alone := l.steps.value(now).At(d.sequences(), d.attended())
	least := max(1, d.rows/float64(l.start.StepTokens))
	n := d.steps
	if d.decode > 0 {
		n = min(max(d.steps-d.decode/alone, least), d.steps)
	}
	if d.rows < rowsPerStep*n {
		return
	}
	// What a step without prompts takes, say the reading of the weights, may be hidden
	// behind the rows' work, but not all of that behind it.
	l.localToken.add(now, max(d.prefill-n*alone, d.prefill/10)/d.rows)
}

func (l *Learner) learnStep(now time.Time, d delta) {
	n := d.steps
	if d.rows > 0 {
		prompts := max(1, d.rows/float64(l.start.StepTokens))
		if n -= prompts; n < decodeSteps*prompts {
			return
		}
	}
	if d.decode > 0 {
		l.steps.add(now, sample{d.sequences(), d.attended(), d.decode / n})
	}
}

// Local learns from a prompt that was computed here: how long its first token took from the
// decision on, and for how much of that time the scheduler's steps were busy. The rest was
// lost between them; what the steps take is learnt from all of them.
func (l *Learner) Local(now time.Time, d *disagg.Decision, ttft, busy time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked(d, ttft)
	l.localOverhead.add(now, max(0, (ttft-busy).Seconds()))
}
