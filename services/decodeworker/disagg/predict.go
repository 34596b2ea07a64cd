package disagg

import (
	"math"
	"time"
)

// Prediction is what both ways are expected to take, from the decision on.
type Prediction struct {
	// LocalTTFT and RemoteTTFT are until the first token.
	LocalTTFT, RemoteTTFT time.Duration
	// QueueWait is the part of RemoteTTFT that passes before a prefill worker takes the job.
	QueueWait time.Duration
	// ITLHarm is how much later than their target the running sequences get their tokens
	// because of a local prefill, added up over them.
	ITLHarm time.Duration
}

// Predict applies the formulas of the package comment. An itlTarget of 0 makes every delay harm.
func Predict(f *Facts, itlTarget time.Duration) Prediction {
	p := Prediction{QueueWait: queueWait(f)}
	p.LocalTTFT, p.ITLHarm = predictLocal(f, itlTarget)
	p.RemoteTTFT = p.QueueWait + predictRemote(f)
	return p
}

// predictLocal is how long the prompt takes here, and whom it delays by how much.
func predictLocal(f *Facts, itlTarget time.Duration) (ttft, harm time.Duration) {
	s := &f.Speeds
	alone := s.Step + times(s.StepSequence, float64(f.Decoding))
	rows := float64(f.AheadTokens + f.uncached())
	ttft = s.LocalOverhead + times(s.LocalToken, rows) + times(alone, f.steps(rows))
	if f.Decoding == 0 {
		return ttft, 0
	}
	ttft += alone / 2
	n := f.steps(float64(f.uncached()))
	mixed := alone + times(s.LocalToken, float64(f.uncached())/n)
	late := max(0, mixed-max(itlTarget, alone))
	return ttft, times(late, n*float64(f.Decoding))
}

// predictRemote is how long a hand-off takes once a prefill worker has the job, which reads
// the prefix or computes it, whichever is quicker.
func predictRemote(f *Facts) time.Duration {
	return min(predictReading(f, f.readable()), predictReading(f, 0))
}

func predictReading(f *Facts, read int) time.Duration {
	s := &f.Speeds
	rows := float64(f.PromptTokens - read)
	return s.RemoteOverhead + s.Admission + times(s.RemoteToken, rows) + times(s.Step, f.steps(rows)) +
		f.transfer(read, 1) + f.transfer(f.uncached(), s.WriteTail)
}

// NeverRead is a number of rows that no prefix has.
const NeverRead = math.MaxInt32

// ReadAtLeast is from how many rows on a prefill worker has them sooner by reading than by
// computing them: LinkLatency / (RemoteToken − RowBytes / LinkBytesPerSecond), rounded up. A
// prefill worker's own cache may leave it fewer to read than the prediction counted with.
func (s *Speeds) ReadAtLeast(rowBytes int) int {
	gain := float64(s.RemoteToken)
	if s.LinkBytesPerSecond > 0 {
		gain -= float64(rowBytes) / s.LinkBytesPerSecond * float64(time.Second)
	}
	if rows := math.Ceil(float64(s.LinkLatency) / gain); gain > 0 && rows < NeverRead {
		return int(rows)
	}
	return NeverRead
}

// ComputeTime is what a prefill worker saves that lacks so many rows fewer, where a step has
// stepTokens: RemoteToken · rows + Step · rows / stepTokens.
func (s *Speeds) ComputeTime(rows, stepTokens int) time.Duration {
	return times(s.RemoteToken, float64(rows)) + times(s.Step, float64(rows)/float64(max(1, stepTokens)))
}

// queueWait is how long the job would wait for a prefill worker.
func queueWait(f *Facts) time.Duration {
	q, wait := &f.Queue, time.Duration(0)
	if q.Waiting+q.Working >= f.PrefillWorkers {
		jobs := float64(q.Waiting) + float64(q.Working)/2 // those in work are half done on average
		wait = times(f.Speeds.Job, jobs/float64(max(1, f.PrefillWorkers)))
	}
	return max(wait, q.Oldest)
}

// steps is how many steps so many prompt rows need; not rounded up, so that a token more is
// never a jump.
func (f *Facts) steps(rows float64) float64 { return max(1, rows/float64(max(1, f.StepTokens))) }

// transfer is how long a share of so many rows is on the link.
func (f *Facts) transfer(rows int, share float64) time.Duration {
	if rows == 0 || f.Speeds.LinkBytesPerSecond <= 0 {
		return 0
	}
	seconds := float64(rows) * float64(f.RowBytes) / f.Speeds.LinkBytesPerSecond
	return f.Speeds.LinkLatency + times(time.Second, share*seconds)
}

// longest keeps a prediction from overflowing: whatever takes longer is equally hopeless.
const longest = 24 * time.Hour

func times(d time.Duration, n float64) time.Duration {
	return time.Duration(min(float64(d)*n, float64(longest)))
}
