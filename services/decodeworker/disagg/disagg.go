// Package disagg decides whether the prompt of a sequence is computed on the decode
// worker itself or on a prefill worker. It is a pure function of a policy and of facts;
// it holds no state, measures nothing and does no I/O.
//
// The policy cost goes remote when
//
//	1.05 · remote TTFT < local TTFT + ITL harm
//
// because a hand-off keeps two workers and a link busy and must gain more than what the
// predictions are wrong by. All three are times, in seconds here:
//
//	u = prompt − cached           rows that are missing here
//	r = min(cached, offered)      rows that a prefill worker may read; 0 where computing them is quicker
//	n(x) = max(1, x/StepTokens)   steps for x rows of prompts, which share each step with the
//	                              B sequences that decode (chunked prefill, Sarathi-Serve, OSDI '24)
//	step = Step + B · StepSequence
//
//	local TTFT  = LocalOverhead + (ahead+u) · LocalToken + n(ahead+u) · step
//	            + step/2, of the one under way, when B > 0
//	remote TTFT = wait + RemoteOverhead + Admission
//	            + (prompt−r) · RemoteToken + n(prompt−r) · Step
//	            + transfer(r) + WriteTail · transfer(u)
//	wait        = max(age of the queue's head,
//	                  0 when some prefill worker is free, else (waiting + working/2) · Job/workers)
//	ITL harm    = B · n(u) · max(0, u/n(u) · LocalToken + step − max(ITL target, step))
//
// Time to first token is what the one new sequence waits. The harm is what the others wait
// because of it: each of the n(u) steps that hold its rows comes late for each of the B by
// what exceeds the target, or by what exceeds a step without prompts where that misses the
// target anyway. A late millisecond counts the same whoever has it. A transfer takes
// LinkLatency + rows · RowBytes / LinkBytesPerSecond. A prefill worker's own cache may make
// it quicker than this says, which counts all that it cannot be sure to read as computed.
//
// It follows that a longer or older queue never makes remote more likely, and more or
// quicker prefill workers, a quicker link, more running sequences, more prompts ahead or
// a tighter target never make local more likely. Where a token costs 1.05 times less there
// than here, its transfer included, neither does a longer prompt within the deadline.
package disagg

import "time"

// Reason says why a decision is what it is. It is the label of a counter.
type Reason string

// The reasons for a decision.
const (
	ByPolicy         Reason = "policy"
	OnTrial          Reason = "on_trial"
	NoPrefillWorker  Reason = "no_prefill_worker"
	QueueUnreachable Reason = "queue_unreachable"
	LongQueue        Reason = "long_queue" // with cost: remote but for the wait
	OldQueue         Reason = "old_queue"  // the same, and what says so is how long the head waits
	ShortPrompt      Reason = "short_prompt"
	LongPrefix       Reason = "long_prefix"
	LongPrompt       Reason = "long_prompt"
	LocalFaster      Reason = "local_faster"
	RemoteFaster     Reason = "remote_faster"
	ITLHarm          Reason = "itl_harm" // remote though local is faster for this one sequence
	ExploreLocal     Reason = "explore_local"
	ExploreRemote    Reason = "explore_remote"
)

// Explores says that the decision went against its prediction.
func (r Reason) Explores() bool { return r == ExploreLocal || r == ExploreRemote }

// margin is by how much a hand-off must be quicker.
const margin = 1.05

// exploreWithin: what is predicted to be more times worse is not worth a look. It is tried
// again once its measurements have grown old.
const exploreWithin = 16

// explores says whether the worse way is due for a look. The worse it is, the rarer, so
// that the price stays the same.
func explores(p *Policy, f *Facts, worse, better time.Duration) bool {
	ratio := float64(worse) / float64(max(1, better))
	return ratio <= exploreWithin && float64(f.SinceExplored) >= float64(p.ExplorePeriod())*max(1, ratio/2)
}

// Decision is where the prompt is computed, and why.
type Decision struct {
	Remote bool
	Reason Reason
	Prediction
}

// Decide applies a valid policy to the facts. The prediction is made whatever the policy.
func Decide(p *Policy, f *Facts) Decision {
	d := Decision{Prediction: Predict(f, p.ITLTarget())}
	switch {
	case f.OnTrial:
		d.Reason = OnTrial
	case p.Policy == Never:
		d.Reason = ByPolicy
	case f.PrefillWorkers == 0:
		d.Reason = NoPrefillWorker
	case p.Policy == Always:
		d.Remote, d.Reason = true, ByPolicy
	case !f.Queue.Known:
		d.Reason = QueueUnreachable
	case p.Policy == Threshold:
		d.Remote, d.Reason = byThreshold(p, f)
	default:
		d.Remote, d.Reason = byCost(p, f, &d.Prediction)
	}
	return d
}

func byThreshold(p *Policy, f *Facts) (remote bool, why Reason) {
	switch unoffered := f.CachedTokens - f.OfferedTokens; {
	case f.uncached() <= unoffered: // elsewhere more might be computed twice than is new
		return false, LongPrefix
	case f.uncached() <= p.ThresholdTokens:
		return false, ShortPrompt
	case f.Queue.Waiting >= p.MaxQueue:
		return false, LongQueue
	}
	return true, LongPrompt
}

func byCost(p *Policy, f *Facts, x *Prediction) (goes bool, why Reason) {
	local, remote := x.LocalTTFT+x.ITLHarm, times(x.RemoteTTFT, margin)
	switch {
	case f.Deadline > 0 && x.RemoteTTFT >= f.Deadline: // it would be computed here after all, later
		return false, waitOr(f, x, x.RemoteTTFT-x.QueueWait < f.Deadline)
	case remote >= local:
		why = waitOr(f, x, times(x.RemoteTTFT-x.QueueWait, margin) < local)
		if why == LocalFaster && f.uncached() > p.ThresholdTokens && explores(p, f, x.RemoteTTFT, local) {
			return true, ExploreRemote
		}
		return false, why
	case explores(p, f, local, x.RemoteTTFT):
		return false, ExploreLocal
	case x.RemoteTTFT > x.LocalTTFT:
		return true, ITLHarm
	}
	return true, RemoteFaster
}

// waitOr names the reason for local: the queue, where that alone made it so.
func waitOr(f *Facts, x *Prediction, butForTheWait bool) Reason {
	switch {
	case !butForTheWait:
		return LocalFaster
	case x.QueueWait == f.Queue.Oldest:
		return OldQueue
	}
	return LongQueue
}
