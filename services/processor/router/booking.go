package router

import (
	"math"
	"slices"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// Report is a worker's own word on its load.
type Report struct {
	// Booked is how far the bookings of each attached processor are part of the report.
	Booked []Counted
	// PrefillTokens are tokens of prompts not computed yet.
	PrefillTokens int
	// Running is the number of sequences that hold blocks, DecodeTokens their tokens.
	Running, DecodeTokens int
	// Speed is what the worker has learnt of itself.
	Speed Speed
}

// Counted is the highest booking of a processor that a report includes.
type Counted struct {
	Processor ProcessorID
	Booking   uint64
}

// ledger is the bookings of one processor on one worker that no report includes yet.
// Bookings are numbered without gaps, so they lie in a ring: entry n at n modulo its size.
type ledger struct {
	processor ProcessorID
	stream    uint64 // of the numbers
	reported  uint64 // the highest that a report includes
	last      uint64
	ring      []booking        // its size is a power of two
	waits     map[uint64]*wait // of another processor's bookings; its own are the choices'

	listed bool // some report named the processor
	missed int  // reports since then, or since the first booking, that did not

	// Sums over the ring.
	prefill, decode int // tokens
	count           int
}

// booking is a request that was sent; zero when it has ended.
type booking struct {
	prefill, decode int32 // tokens
	open            bool
}

func (l *ledger) at(number uint64) *booking { return &l.ring[number&uint64(len(l.ring)-1)] }

// add enters a booking. Numbers that were left out are taken to be void.
func (l *ledger) add(number uint64, b booking) {
	if number <= l.last {
		return
	}
	for need := number - l.reported; uint64(len(l.ring)) < need; {
		l.grow()
	}
	for n := l.last + 1; n < number; n++ {
		*l.at(n) = booking{}
	}
	l.last = number
	*l.at(number) = b
	l.prefill, l.decode, l.count = l.prefill+int(b.prefill), l.decode+int(b.decode), l.count+1
}

func (l *ledger) grow() {
	old := *l
	l.ring = make([]booking, max(16, 2*len(l.ring)))
	for n := l.reported + 1; n <= l.last; n++ {
		*l.at(n) = *old.at(n)
	}
}

// change replaces an open booking; one that is over, or part of the report, stays what it is.
func (l *ledger) change(number uint64, to booking) {
	if number <= l.reported || number > l.last || !l.at(number).open {
		return
	}
	b := l.at(number)
	l.prefill += int(to.prefill - b.prefill)
	l.decode += int(to.decode - b.decode)
	if !to.open {
		l.count--
	}
	*b = to
}

// report ends the bookings up to a number. Numbers start anew with each stream: one that
// was not given yet is of an older stream.
func (l *ledger) report(number uint64) {
	number = min(number, l.last)
	for n := l.reported + 1; n <= number; n++ {
		l.change(n, booking{})
	}
	l.reported = max(l.reported, number)
}

// Report takes a worker's report, which replaces what was known of its load. Bookings up
// to the one that it names are part of it.
func (r *Router) Report(id WorkerID, report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byID[id]
	if w == nil {
		return
	}
	for i := range w.ledgers {
		l := &w.ledgers[i]
		j := slices.IndexFunc(report.Booked, func(c Counted) bool { return c.Processor == l.processor })
		if j < 0 {
			l.missed++
			continue
		}
		l.listed, l.missed = true, 0
		l.report(report.Booked[j].Booking)
	}
	r.dropLedgers(w, (*ledger).left)
	old := w.report.Speed
	w.report = report
	w.report.Booked = nil
	if !report.Speed.known() {
		w.report.Speed = old
	}
	w.group.tally(old, w.report.Speed)
	if w.report.Speed != old { // what is said again is nothing new
		w.learn()
	}
	r.settle(w)
}

// unlistedMost is how many reports may leave out a processor that none has named yet: it
// attaches before it books, so the report after the next one must.
const unlistedMost = 2

// left says that the processor is not attached to the worker any more, as the worker's reports have it.
func (l *ledger) left() bool { return l.missed > 0 && (l.listed || l.missed >= unlistedMost) }

// dropLedgers forgets the bookings of the other processors that have ended.
func (r *Router) dropLedgers(w *worker, ended func(*ledger) bool) {
	kept := w.ledgers[:1]
	for i := range w.ledgers[1:] {
		l := &w.ledgers[1+i]
		if ended(l) {
			r.close(l)
			continue
		}
		kept = append(kept, *l)
	}
	clear(w.ledgers[len(kept):])
	w.ledgers = kept
}

// book enters the choice on the worker and lets its prompt be waited for.
func (r *Router) book(w *worker, q *groupQuery, c *Choice, tokens int) {
	own := &w.ledgers[0]
	b := booking{prefill: int32(min(float64(tokens), math.Round(c.Terms.UncachedTokens))), decode: int32(tokens), open: true}
	own.add(own.last+1, b)
	c.Booking, c.stream, c.booking = own.last, w.stream, b
	r.settle(w)
	if w.Events {
		c.wait = r.waits.add(w, q.chain, c.Terms.DeviceBlocks)
	}
}

// Computed says that the prompt of a request is computed: it is no prefill any more.
func (r *Router) Computed(c *Choice) { r.progress(c, Shared{Kind: SharedComputed}) }

// Ended says that a request is over at its worker, with so many tokens generated there.
// It must be told of every choice, once.
func (r *Router) Ended(c *Choice, generated int) {
	r.progress(c, Shared{Kind: SharedEnded, DecodeTokens: generated})
}

// Withdraw ends a booking that the worker will not admit; the caller sends it as a void.
func (r *Router) Withdraw(c *Choice) { r.progress(c, Shared{Kind: SharedEnded}) }

func (r *Router) progress(c *Choice, s Shared) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byID[c.Worker]
	if s.Kind == SharedEnded {
		r.waits.drop(c.wait)
		c.wait = nil
	}
	if w == nil || w.stream != c.stream {
		return
	}
	if s.Kind == SharedEnded && s.DecodeTokens > 0 {
		w.group.outputs += outputsGain * (float64(s.DecodeTokens) - w.group.outputs)
	}
	if !c.booking.open || s.Kind == SharedComputed && c.booking.prefill == 0 {
		return
	}
	c.booking.prefill = 0
	if s.Kind == SharedEnded {
		c.booking = booking{}
	}
	w.ledgers[0].change(c.Booking, c.booking)
	r.settle(w)
	s.Worker, s.Stream, s.Booking = w.ID, w.stream, c.Booking
	r.tell(s)
}

func (r *Router) tell(s Shared) {
	if r.opt.Share != nil {
		r.opt.Share(s)
	}
}

// SharedKind says what became of a booking.
type SharedKind uint8

const (
	// SharedBooked: it was made.
	SharedBooked SharedKind = iota
	// SharedComputed: its prompt is computed.
	SharedComputed
	// SharedEnded: it is over, or was withdrawn.
	SharedEnded
)

// Shared is what one processor tells the others of a booking.
type Shared struct {
	Kind    SharedKind
	Worker  WorkerID
	Stream  uint64
	Booking uint64
	// With SharedBooked: the load that it adds, and the chain of the prompt with the leading
	// blocks that the worker held.
	PrefillTokens, DecodeTokens int
	HeldBlocks                  int
	Chain                       []block.Hash
}
