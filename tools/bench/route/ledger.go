package route

import (
	"math/rand/v2"
	"time"
)

// ledger is what a processor knows of the workers' load: their last reports, and the
// bookings that those do not include.
type ledger struct {
	workers []account
}

type account struct {
	report   Report
	bookings []Booking // above report.Accepted, by number
	prefill  int       // tokens of the bookings
	decode   int       // tokens of their prompts
}

func newLedger(workers int) ledger { return ledger{workers: make([]account, workers)} }

// Booked implements Policy.
func (l *ledger) Booked(b Booking) {
	a := &l.workers[b.Worker]
	if b.Number <= a.report.Accepted { // a shared one that came late
		return
	}
	a.bookings = append(a.bookings, b)
	a.prefill += b.Uncached
	a.decode += b.Request.InputTokens
}

// Report implements Policy.
func (l *ledger) Report(_ time.Duration, worker int, r Report) {
	a := &l.workers[worker]
	a.report = r
	rest := a.bookings[:0]
	for _, b := range a.bookings {
		if b.Number > r.Accepted {
			rest = append(rest, b)
			continue
		}
		a.prefill -= b.Uncached
		a.decode -= b.Request.InputTokens
	}
	a.bookings = rest
}

// queued are prompt tokens to be computed on a worker.
func (l *ledger) queued(worker int) int {
	return l.workers[worker].report.Prefill + l.workers[worker].prefill
}

// tokens are the prompt tokens to be computed and the tokens of running sequences.
func (l *ledger) tokens(worker int) int {
	return l.queued(worker) + l.workers[worker].report.Decode
}

// lowest keeps the candidate of the lowest cost; of n equal ones, each with probability 1/n.
type lowest struct {
	random *rand.Rand
	best   int
	cost   float64
	ties   int
}

func (l *lowest) offer(worker int, cost float64) {
	switch {
	case l.ties == 0 || cost < l.cost:
		l.ties = 1
	case cost > l.cost:
		return
	default:
		if l.ties++; l.random.IntN(l.ties) != 0 {
			return
		}
	}
	l.best, l.cost = worker, cost
}
