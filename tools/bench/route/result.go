package route

import (
	"cmp"
	"slices"
	"time"
)

// Result is what a replay showed.
type Result struct {
	Policy   string
	Requests int
	// Reuse is the share of the prompts' tokens that were resident when their prefill began.
	Reuse float64
	// TTFT, ITL and EndToEnd are the times to the first token, between tokens, and to the last.
	TTFT, ITL, EndToEnd Times
	// Goodput is how many requests per second of arrivals met both targets, and Met their share.
	Goodput, Met float64
	// Offered is how many requests arrived per second.
	Offered float64
	// Imbalance is the longest busy time of a worker over the mean of all; Busy is that
	// mean over the time from the first arrival to the last token.
	Imbalance, Busy float64
	// PromptImbalance is the most prompt tokens that a worker computed over the mean of all.
	PromptImbalance float64
	// Decisions per second of wall time: the only figure that is not the same each time.
	Decisions float64
	// Passes is how many passes the workers ran.
	Passes uint64
}

// Times are a distribution.
type Times struct{ Mean, P50, P99 time.Duration }

func (r *replay) result(policy string) Result {
	out := Result{Policy: policy, Requests: len(r.sequences)}
	var (
		prompt, hit   int
		first, all    []time.Duration
		met           int
		last, longest time.Duration
		busy          time.Duration
		most          uint64
	)
	for i := range r.sequences {
		s := &r.sequences[i]
		prompt += s.request.InputTokens
		hit += s.hit
		first = append(first, s.waited())
		all = append(all, s.ended-s.arrived)
		if s.waited() <= r.cfg.TTFT && s.pace() <= r.cfg.ITL {
			met++
		}
		last = max(last, s.ended)
	}
	for _, w := range r.workers {
		busy += w.busy()
		longest = max(longest, w.busy())
		most = max(most, w.done.PromptTokens)
		out.Passes += w.done.Passes
	}
	begin := r.arrivals[0]
	span := max(r.arrivals[len(r.arrivals)-1]-begin, time.Nanosecond).Seconds()
	out.Reuse = float64(hit) / float64(prompt)
	out.TTFT, out.EndToEnd, out.ITL = times(first), times(all), gapTimes(r.gaps)
	out.Met = float64(met) / float64(len(r.sequences))
	out.Goodput, out.Offered = float64(met)/span, float64(len(r.sequences))/span
	mean := busy.Seconds() / float64(len(r.workers))
	out.Imbalance = longest.Seconds() / mean
	out.PromptImbalance = float64(most) * float64(len(r.workers)) / float64(prompt-hit)
	out.Busy = mean / (last - begin).Seconds()
	out.Decisions = float64(len(r.sequences)) / r.deciding.Seconds()
	return out
}

func times(samples []time.Duration) Times {
	slices.Sort(samples)
	sum := 0.0
	for _, s := range samples {
		sum += float64(s)
	}
	rank := func(share float64) time.Duration {
		return samples[min(len(samples)-1, int(share*float64(len(samples))))]
	}
	return Times{Mean: time.Duration(sum / float64(len(samples))), P50: rank(0.5), P99: rank(0.99)}
}

// gapTimes is the distribution of the times between all tokens.
func gapTimes(gaps []gap) Times {
	slices.SortFunc(gaps, func(a, b gap) int { return cmp.Compare(a.took, b.took) })
	total, sum := 0, 0.0
	for _, g := range gaps {
		total += g.sequences
		sum += float64(g.took) * float64(g.sequences)
	}
	if total == 0 {
		return Times{}
	}
	rank := func(share float64) time.Duration {
		place := min(total-1, int(share*float64(total)))
		for _, g := range gaps {
			if place -= g.sequences; place < 0 {
				return g.took
			}
		}
		return 0
	}
	return Times{Mean: time.Duration(sum / float64(total)), P50: rank(0.5), P99: rank(0.99)}
}
