package serve

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Sample is what one whole answer measured.
type Sample struct {
	// TTFT is the time to the first event with text, from when the request was sent first.
	TTFT time.Duration
	// TPOT is the mean time of the tokens after that, up to the last event with text.
	TPOT time.Duration
	// EndToEnd is the time to the end of the answer.
	EndToEnd time.Duration
	// Late is how much later than planned the client sent it.
	Late time.Duration
	// Chunks are events with data, but for the last, [DONE].
	Chunks int
	// Input, Output and Cached are tokens.
	Input, Output, Cached int
	// Counted tells that the server did; if not, an event with text is a token of Output.
	Counted bool
	// Limited is how often it was answered with 429.
	Limited int
}

// Result is what a run measured. Sums are of whole answers only.
type Result struct {
	Model   string
	Samples []Sample
	// Gaps are all times between an answer's events with text: its ITL.
	Gaps    []time.Duration
	Faults  []Fault // most frequent first
	Elapsed time.Duration
	// Limited is how many answers were 429, those that were sent again included.
	Limited int
	// Unfinished were under way when the run was interrupted.
	Unfinished  int
	Interrupted bool
	Processes   []Process
	// Client is the CPU time of this process; 0 where that is not known.
	Client time.Duration

	Chunks, Input, Output, Cached int
}

// Fault counts the failures of one kind.
type Fault struct {
	Kind    string
	Message string // of the first one
	Count   int
}

func (r *Result) add(s Sample, gaps []time.Duration) {
	r.Samples = append(r.Samples, s)
	r.Gaps = append(r.Gaps, gaps...)
	r.Chunks += s.Chunks
	r.Input += s.Input
	r.Output += s.Output
	r.Cached += s.Cached
}

func (r *Result) fail(f *fault) {
	at := slices.IndexFunc(r.Faults, func(have Fault) bool { return have.Kind == f.kind })
	if at < 0 {
		at = len(r.Faults)
		r.Faults = append(r.Faults, Fault{Kind: f.kind, Message: f.message})
	}
	r.Faults[at].Count++
}

func (r *Result) finish() {
	slices.SortFunc(r.Faults, func(a, b Fault) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Kind, b.Kind)) })
}

// Failed is how many requests have no whole answer.
func (r *Result) Failed() (n int) {
	for _, f := range r.Faults {
		n += f.Count
	}
	return n
}

// Met is how many answers met the targets; 0 is none. ITL is the mean of an answer.
func (r *Result) Met(ttft, itl time.Duration) (n int) {
	for _, s := range r.Samples {
		if (ttft == 0 || s.TTFT <= ttft) && (itl == 0 || s.TPOT <= itl) {
			n++
		}
	}
	return n
}

// Times are a distribution of times.
type Times struct{ Mean, P50, P90, P99, Max time.Duration }

// TTFT, TPOT, EndToEnd and Late are of the answers, ITL of the gaps of all of them together.
func (r *Result) TTFT() Times     { return r.of(func(s *Sample) time.Duration { return s.TTFT }) }
func (r *Result) EndToEnd() Times { return r.of(func(s *Sample) time.Duration { return s.EndToEnd }) }
func (r *Result) Late() Times     { return r.of(func(s *Sample) time.Duration { return s.Late }) }

// TPOT leaves out answers of one token, which have none.
func (r *Result) TPOT() Times {
	var list []time.Duration
	for _, s := range r.Samples {
		if s.Output > 1 {
			list = append(list, s.TPOT)
		}
	}
	return timesOf(list)
}

// ITL sorts the gaps.
func (r *Result) ITL() Times { return timesOf(r.Gaps) }

func (r *Result) of(value func(*Sample) time.Duration) Times {
	list := make([]time.Duration, len(r.Samples))
	for i := range r.Samples {
		list[i] = value(&r.Samples[i])
	}
	return timesOf(list)
}

// timesOf sorts the list. Percentiles are the least value that at least that share of the
// list does not exceed.
func timesOf(list []time.Duration) Times {
	if len(list) == 0 {
		return Times{}
	}
	slices.Sort(list)
	sum := 0.0 // seconds of many requests do not overflow it
	for _, d := range list {
		sum += float64(d)
	}
	at := func(percent int) time.Duration { return list[max(0, (len(list)*percent+99)/100-1)] }
	return Times{Mean: time.Duration(math.Round(sum / float64(len(list)))), P50: at(50), P90: at(90), P99: at(99), Max: list[len(list)-1]}
}
