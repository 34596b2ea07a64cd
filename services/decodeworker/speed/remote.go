package speed

import (
	"time"

	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// linkBytes is the least that a transfer must have moved to tell the link's bandwidth.
const linkBytes = 64 << 10

// HandOff is a prompt that was computed elsewhere, as its completion note has it. What the
// note does not say is 0.
type HandOff struct {
	// PrefillWorker computed it.
	PrefillWorker string
	// Admit is from the claim until the engine began, Compute the computing, Write from its
	// end until the last byte had landed, Transfer the time of all writes.
	Admit, Compute, Write, Transfer time.Duration
	// Bytes were written, ComputedTokens computed, ReadTokens read from here.
	Bytes                      uint64
	ComputedTokens, ReadTokens int
	// Whole is from the decision until the commit.
	Whole time.Duration
}

// bound keeps what a note says within what can be.
func (h *HandOff) bound(f *disagg.Facts) {
	const longest = 24 * time.Hour
	for _, d := range []*time.Duration{&h.Admit, &h.Compute, &h.Write, &h.Transfer} {
		*d = min(longest, max(0, *d))
	}
	h.ComputedTokens = min(h.ComputedTokens, f.PromptTokens)
	h.ReadTokens = min(h.ReadTokens, f.PromptTokens)
	h.Bytes = min(h.Bytes, 2*uint64(f.PromptTokens*f.RowBytes)) // whole blocks may travel
}

// Remote learns from a hand-off, with its decision and the facts of that.
func (l *Learner) Remote(now time.Time, f disagg.Facts, d *disagg.Decision, h HandOff) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.bound(&f)
	l.looked(d, h.Whole)
	f.Speeds = l.speeds(now)
	p := disagg.Predict(&f, 0)
	if h.Compute <= 0 { // a prefill worker that tells no times: what is left is its computing
		f.Speeds.RemoteToken = 0
		h.Compute = max(0, h.Whole-disagg.Predict(&f, 0).RemoteTTFT)
		l.learnCompute(now, &f, h)
		return
	}
	l.learnCompute(now, &f, h)
	read := float64(h.ReadTokens*f.RowBytes) / f.Speeds.LinkBytesPerSecond
	l.admission.add(now, max(0, h.Admit.Seconds()-read))
	l.job.add(now, (h.Admit + h.Compute).Seconds())
	l.learnLink(now, h)
	rest := h.Whole - p.QueueWait - h.Admit - h.Compute - h.Write
	l.remoteOverhead.add(now, max(0, rest.Seconds()))
}

func (l *Learner) learnCompute(now time.Time, f *disagg.Facts, h HandOff) {
	rows := float64(h.ComputedTokens)
	if rows < rowsPerStep {
		return
	}
	steps := max(1, rows/float64(l.start.StepTokens)) * f.Speeds.Step.Seconds()
	l.remoteToken.add(now, max(h.Compute.Seconds()-steps, h.Compute.Seconds()/10)/rows)
}

func (l *Learner) learnLink(now time.Time, h HandOff) {
	if h.Bytes < linkBytes || h.Transfer <= 0 {
		return
	}
	perByte := h.Transfer.Seconds() / float64(h.Bytes)
	l.byteTime.add(now, perByte)
	l.writeTail.add(now, min(1, max(0, h.Write.Seconds()/h.Transfer.Seconds())))
	l.links.add(now, h.PrefillWorker, int(h.Bytes), h.Transfer)
}

// Lost learns from a hand-off that came to nothing after a time: the prompt is computed
// here after all, so both together are what remote took. Of a long prompt that is said of
// its first rows only, so that short ones are not judged by it. The second loss in a row
// counts in full, because each may cost a whole deadline.
func (l *Learner) Lost(now time.Time, f disagg.Facts, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look.row = 0
	f.Speeds = l.speeds(now)
	f.PromptTokens = min(f.PromptTokens, f.CachedTokens+l.start.JobTokens)
	p := disagg.Predict(&f, 0)
	rest := after + p.LocalTTFT - (p.RemoteTTFT - f.Speeds.RemoteOverhead)
	l.remoteOverhead.take(now, max(0, rest.Seconds()), false)
}
