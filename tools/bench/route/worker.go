package route

import (
	"container/heap"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
)

// worker is one simulated engine: first come, first served, prompts in pieces beside the
// sequences that already generate.
type worker struct {
	cfg   *Config
	cache *cache

	waiting  []*sequence // in the order of their arrival
	prompts  []*sequence // begun, not computed to the end
	decoding ending
	context  int64 // tokens of the sequences that generate

	running bool
	pass    pass
	done    Work

	accepted  []uint64 // requests, by processor
	unstarted int      // tokens that the router takes to be uncached, of those that wait
	remaining int      // tokens of begun prompts
	finished  []*sequence
	begun     []*sequence // that got their first token in the last pass
}

// pass is what a worker computes in one go.
type pass struct {
	ends   time.Duration
	took   time.Duration
	pieces []piece
}

// piece is a part of a prompt.
type piece struct {
	sequence *sequence
	tokens   int
}

func (w *worker) accept(s *sequence) {
	w.accepted[s.booking.Processor]++
	w.waiting = append(w.waiting, s)
	w.unstarted += s.booking.Uncached
}

// start begins the next pass, if there is anything to compute.
func (w *worker) start(now time.Duration) bool {
	w.pass.pieces = w.pass.pieces[:0]
	step := timing.Step{Decoding: len(w.decoding), ContextTokens: w.context}
	left := w.cfg.PassTokens
	for _, s := range w.prompts {
		left -= w.add(s, left, &step)
	}
	for left > 0 && len(w.waiting) > 0 && len(w.prompts)+len(w.decoding) < w.cfg.MaxRunning && w.waiting[0].start(w.cache, w.cfg) {
		s := w.waiting[0]
		w.waiting[0], w.waiting = nil, w.waiting[1:]
		s.started = now
		w.unstarted -= s.booking.Uncached
		w.remaining += s.request.InputTokens - s.hit
		w.prompts = append(w.prompts, s)
		left -= w.add(s, left, &step)
	}
	step.PoolUsed = float64(w.cache.used) / float64(w.cache.capacity)
	w.running = step.PromptTokens > 0 || step.Decoding > 0
	if w.running {
		w.pass.took = w.cfg.Timing.Step(step)
		w.pass.ends = now + w.pass.took
	}
	return w.running
}

// add takes the next piece of a prompt into the pass.
func (w *worker) add(s *sequence, most int, step *timing.Step) int {
	tokens := min(most, s.request.InputTokens-s.computed)
	if tokens > 0 {
		w.pass.pieces = append(w.pass.pieces, piece{s, tokens})
		step.PromptTokens += tokens
		step.PromptPairs += timing.Pairs(tokens, s.computed)
	}
	return tokens
}

// finish ends the pass: begun and finished then hold whom it gave a first or last token.
func (w *worker) finish() {
	w.count()
	w.begun, w.finished = w.begun[:0], w.finished[:0]
	w.context += int64(len(w.decoding))
	for len(w.decoding) > 0 && w.decoding[0].lastPass == w.done.Passes {
		s := heap.Pop(&w.decoding).(*sequence)
		w.context -= int64(s.request.InputTokens + s.request.OutputTokens)
		w.end(s)
	}
	for _, p := range w.pass.pieces {
		p.sequence.compute(w.cache, p.tokens, w.cfg.BlockTokens)
		w.remaining -= p.tokens
		w.done.PromptTokens += uint64(p.tokens)
	}
	w.promote()
}

// count notes the pass that ends.
func (w *worker) count() {
	w.done.Passes++
	w.done.Generated += uint64(len(w.decoding))
	w.done.Context += uint64(w.context)
	if len(w.pass.pieces) > 0 {
		w.done.PromptBusy += w.pass.took
	} else {
		w.done.DecodeBusy += w.pass.took
	}
}

// busy is how long it computed so far.
func (w *worker) busy() time.Duration { return w.done.PromptBusy + w.done.DecodeBusy }

// promote lets the sequences generate whose prompts are computed: each has its first token.
func (w *worker) promote() {
	rest := w.prompts[:0]
	for _, s := range w.prompts {
		if s.computed < s.request.InputTokens {
			rest = append(rest, s)
			continue
		}
		s.first = w.pass.ends
		w.begun = append(w.begun, s)
		w.done.Generated++
		w.done.FirstTokens++
		if s.request.OutputTokens == 1 {
			w.end(s)
			continue
		}
		s.lastPass = w.done.Passes + uint64(s.request.OutputTokens) - 1
		w.context += int64(s.request.InputTokens + 1)
		heap.Push(&w.decoding, s)
	}
	clear(w.prompts[len(rest):])
	w.prompts = rest
}

func (w *worker) end(s *sequence) {
	s.ended = w.pass.ends
	s.end(w.cache, w.cfg.BlockTokens)
	w.finished = append(w.finished, s)
}

// report is the worker's word on its load.
func (w *worker) report() Report {
	r := Report{
		AcceptedOf: slices.Clone(w.accepted), Prefill: w.unstarted + w.remaining, Decode: int(w.context), Decoding: len(w.decoding),
		Waiting: len(w.waiting) + len(w.prompts), Begun: len(w.prompts), Used: w.cache.used, Done: w.done,
	}
	for _, n := range w.accepted {
		r.Accepted += n
	}
	for _, s := range w.prompts {
		r.BegunTokens += s.request.InputTokens
	}
	return r
}

// ending orders the sequences that generate by their last pass, then by arrival.
type ending []*sequence

func (e ending) Len() int { return len(e) }
func (e ending) Less(i, j int) bool {
	if e[i].lastPass != e[j].lastPass {
		return e[i].lastPass < e[j].lastPass
	}
	return e[i].request.index < e[j].request.index
}
func (e ending) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ending) Push(x any)   { *e = append(*e, x.(*sequence)) }
func (e *ending) Pop() any {
	last := len(*e) - 1
	s := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return s
}
