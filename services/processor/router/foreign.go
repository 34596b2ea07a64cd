package router

import (
	"math"
	"slices"
)

// Bounds of what is kept of one other processor's bookings on one worker. Beyond them
// something is wrong, and the worker's report tells the load all the same.
const (
	foreignBookings = 1 << 16
	foreignWaits    = 1024
)

// Foreign takes in what another processor says of a booking. What it says of a worker or
// a booking that is not known is ignored: the worker's report is the authority.
func (r *Router) Foreign(from ProcessorID, s Shared) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byID[s.Worker]
	if w == nil || from == r.opt.Self || s.Booking == 0 || !canBeBooked(s.PrefillTokens) || !canBeBooked(s.DecodeTokens) {
		return
	}
	l := r.ledgerOf(w, from, s.Stream)
	if s.Booking > l.reported+foreignBookings {
		return
	}
	switch s.Kind {
	case SharedBooked:
		if s.Booking > l.reported {
			l.add(s.Booking, booking{prefill: int32(s.PrefillTokens), decode: int32(s.DecodeTokens), open: true})
			r.counts.Shared++
		}
		if w.Events {
			r.await(l, w, s)
		}
	case SharedComputed, SharedEnded:
		if s.Booking > l.reported && s.Booking <= l.last {
			b := *l.at(s.Booking)
			b.prefill = 0
			if s.Kind == SharedEnded {
				b = booking{}
			}
			l.change(s.Booking, b)
		}
		if s.Kind == SharedEnded {
			r.waits.drop(l.waits[s.Booking])
			delete(l.waits, s.Booking)
		}
	}
	r.settle(w)
}

func canBeBooked(tokens int) bool { return tokens >= 0 && tokens <= math.MaxInt32 }

// await lets the blocks of another processor's prompt be waited for. An end that was lost
// leaves one behind; the oldest goes when there are too many.
func (r *Router) await(l *ledger, w *worker, s Shared) {
	e := r.waits.add(w, s.Chain, max(0, s.HeldBlocks))
	if e == nil || l.waits[s.Booking] != nil {
		r.waits.drop(e)
		return
	}
	if l.waits == nil {
		l.waits = map[uint64]*wait{}
	}
	if len(l.waits) >= foreignWaits {
		oldest := s.Booking
		for n := range l.waits {
			oldest = min(oldest, n)
		}
		r.waits.drop(l.waits[oldest])
		delete(l.waits, oldest)
	}
	l.waits[s.Booking] = e
}

// ledgerOf is the ledger of a processor's present stream to a worker.
func (r *Router) ledgerOf(w *worker, processor ProcessorID, stream uint64) *ledger {
	i := slices.IndexFunc(w.ledgers, func(l ledger) bool { return l.processor == processor })
	if i < 0 {
		w.ledgers = append(w.ledgers, ledger{processor: processor, stream: stream})
		return &w.ledgers[len(w.ledgers)-1]
	}
	l := &w.ledgers[i]
	if l.stream != stream {
		r.close(l)
		*l = ledger{processor: processor, stream: stream, ring: l.ring, listed: l.listed}
	}
	return l
}

// KeepProcessors forgets the bookings of the processors that are not among these: workers that are idle report
// nothing, and so do not say that one has ended.
func (r *Router) KeepProcessors(present map[ProcessorID]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := func(l *ledger) bool { return !present[l.processor] }
	for _, w := range r.workers {
		if len(w.ledgers) > 1 {
			r.dropLedgers(w, gone)
			r.settle(w)
		}
	}
}

// close ends what waits for the bookings of a ledger that has ended.
func (r *Router) close(l *ledger) {
	for _, e := range l.waits {
		r.waits.drop(e)
	}
	l.waits = nil
}
