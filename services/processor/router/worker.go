package router

import (
	"math"

	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// worker is what the router knows of a candidate; the router's mutex guards it. What a
// decision reads of it is in its seat, which settle brings up to date.
type worker struct {
	Worker
	at       int // in workers and seats
	slot     prefix.Slot
	group    *group
	attached bool
	draining bool
	stream   uint64 // counts the streams
	report   Report
	ledgers  []ledger // the first is this processor's own
	ratio    ratio    // to its group's speed
	assumed  assumed
	held     int // blocks on the device, as its events say
}

// seat is what a decision reads of a worker, side by side with those of the others.
type seat struct {
	slot    prefix.Slot
	group   int32   // in groups
	longest int     // sequence that it takes, in tokens; 0 when it takes none
	factor  float64 // of the group's rates
	queued  float64 // active prefill: tokens of prompts to compute
	running float64 // sequences
	active  float64 // tokens of those
}

// settle brings the seat up to date.
func (r *Router) settle(w *worker) {
	var prefill, decode, running int
	for i := range w.ledgers {
		l := &w.ledgers[i]
		prefill, decode, running = prefill+l.prefill, decode+l.decode, running+l.count
	}
	s := &r.seats[w.at]
	*s = seat{
		slot: w.slot, group: w.group.at, factor: w.ratio.factor(), queued: float64(w.report.PrefillTokens + prefill),
		running: float64(w.report.Running + running), active: float64(w.report.DecodeTokens + decode),
	}
	if w.attached && !w.draining {
		s.longest = w.longest()
	}
}

// queue is the time that the prompts to compute take, at the rates of the seat's group.
func (s *seat) queue(g *rates) float64 { return s.factor * g.token * s.queued }

// decode is the time of an answer's token beside the running sequences, with the request of so many
// tokens among them.
func (s *seat) decode(g *rates, tokens float64) float64 {
	return s.factor * g.at(s.running+1, s.active+tokens)
}

// longest is the longest sequence that fits, in tokens.
func (w *Worker) longest() int {
	longest := math.MaxInt
	if w.ContextTokens > 0 {
		longest = w.ContextTokens
	}
	if w.PoolBlocks > 0 {
		longest = min(longest, w.PoolBlocks*w.BlockTokens)
	}
	return longest
}

// restart begins a new stream: what was booked on the old one has ended.
func (r *Router) restart(w *worker) {
	w.stream++
	own := &w.ledgers[0]
	w.ledgers[0] = ledger{processor: r.opt.Self, stream: w.stream, ring: own.ring}
	w.report = Report{Speed: w.report.Speed, DecodeTokens: w.report.DecodeTokens, PrefillTokens: w.report.PrefillTokens, Running: w.report.Running}
	r.settle(w)
}

// forget ends all that waits for the worker's blocks.
func (r *Router) forget(w *worker) {
	for i := range w.ledgers {
		r.close(&w.ledgers[i])
	}
	r.waits.dropWorker(w)
}

// Load is what a worker carries now, whoever asks.
type Load struct {
	ID       WorkerID
	Attached bool
	// Tokens of prompts to compute and of running sequences, all bookings included.
	PrefillTokens, DecodeTokens int
	// HeldBlocks is the number of blocks that the index knows of it, on the device.
	HeldBlocks int
}

// Loads tells what the router knows of each worker.
func (r *Router) Loads() []Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	loads := make([]Load, len(r.workers))
	for i, w := range r.workers {
		l := Load{ID: w.ID, Attached: w.attached, PrefillTokens: w.report.PrefillTokens, DecodeTokens: w.report.DecodeTokens}
		for j := range w.ledgers {
			l.PrefillTokens += w.ledgers[j].prefill
			l.DecodeTokens += w.ledgers[j].decode
		}
		l.HeldBlocks = w.held + len(w.assumed.index)
		loads[i] = l
	}
	return loads
}
