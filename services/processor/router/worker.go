package router

// worker is what the router knows of a candidate; the router's mutex guards it.
type worker struct {
	Worker
	attached bool
	draining bool

	stream   int // counts the streams
	report   Report
	last     uint64              // the last booking's number on the present stream
	bookings map[uint64]*booking // those above the report's number
	// Sums over bookings.
	bookedPrefill int // tokens
	bookedDecode  int // tokens

	memory memory
}

// booking is a request that was sent and that no report includes yet.
type booking struct{ prefillTokens, decodeTokens int }

func (w *worker) prefill() float64 {
	return float64(w.report.PrefillTokens+w.bookedPrefill) / float64(w.BlockTokens)
}

func (w *worker) decode() float64 {
	return float64(w.report.DecodeTokens+w.bookedDecode) / float64(w.BlockTokens)
}

// book adds a request of so many tokens, of which the first cached are taken to be resident.
func (w *worker) book(tokens, cached int) uint64 {
	w.last++
	w.bookings[w.last] = &booking{prefillTokens: tokens - cached, decodeTokens: tokens}
	w.bookedPrefill += tokens - cached
	w.bookedDecode += tokens
	return w.last
}

func (w *worker) drop(number uint64) {
	b := w.bookings[number]
	if b == nil {
		return
	}
	w.bookedPrefill -= b.prefillTokens
	w.bookedDecode -= b.decodeTokens
	delete(w.bookings, number)
}

func (w *worker) take(report Report) {
	// Numbers start anew with each stream: one that was not given yet is of an older stream.
	report.Booking = min(report.Booking, w.last)
	for n := w.report.Booking + 1; n <= report.Booking; n++ {
		w.drop(n)
	}
	report.Booking = max(report.Booking, w.report.Booking)
	w.report = report
}

func (w *worker) reset() {
	w.stream++
	clear(w.bookings)
	w.report, w.last, w.bookedPrefill, w.bookedDecode = Report{}, 0, 0, 0
}
