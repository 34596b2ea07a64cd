package frontend

import (
	"fmt"
	"math"
	"time"

	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// silence bounds the time in which nothing comes of an answer: while no choice of it has
// begun that has not ended, since the others may wait in a queue, and while one has. Its
// timer is armed when that changes and whenever it fires, so that a token costs nothing. The
// goroutine of the answer owns it.
type silence struct {
	a           *answer
	began       time.Time
	first, idle time.Duration // 0: no bound
	timer       *time.Timer
	talking     bool // the bound that holds is idle
	suspected   bool // the time was up once, and no chunk has come since
}

// watch begins with the dispatch of a.
func watch(a *answer, cfg Config) *silence {
	w := &silence{a: a, began: time.Now(), first: cfg.FirstToken, idle: cfg.StreamIdle}
	w.timer = time.NewTimer(w.left())
	return w
}

func (w *silence) stop() { w.timer.Stop() }

// limit is the bound that holds now.
func (w *silence) limit() time.Duration {
	if w.talking {
		return w.idle
	}
	return w.first
}

// left is the time until the silence is too long.
func (w *silence) left() time.Duration {
	limit, since := w.limit(), w.began
	if !w.a.last.IsZero() {
		since = w.a.last
	}
	if limit == 0 {
		return math.MaxInt64
	}
	return limit - time.Since(since)
}

// broken notes a chunk that the answer has taken.
func (w *silence) broken() {
	w.suspected = false
	if talking := w.a.tally.talking(); talking != w.talking {
		w.talking = talking
		w.timer.Reset(w.left())
	}
}

// grace is how much longer a silence is listened to; less where the limit is short.
const grace = time.Second

// check tells whether the silence is too long when the timer has fired. A chunk that waits
// to be taken, since the client was busy with others, ends it. While a slow client was written
// to, nobody listened: so the time must be up twice, the second time after a wait.
func (w *silence) check(waiting bool) error {
	left := w.left()
	switch {
	case waiting:
		left = w.limit()
	case left <= 0 && w.talking && !w.suspected:
		w.suspected, left = true, min(grace, w.limit()/8)
	case left <= 0:
		return openai.TimedOut(fmt.Sprintf("The model sent nothing for %v. The generation was stopped.", w.limit()))
	}
	w.timer.Reset(left)
	return nil
}
