package speed

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl/link"
)

// Source says where a link's bandwidth is known from.
type Source uint8

// The sources; each goes before those above it.
const (
	ByStart     Source = iota // taken for one of its class
	ByProbe                   // when the prefill worker joined
	ByTransfers               // of the last minutes
)

// Link is what is believed of the way from one prefill worker.
type Link struct {
	PrefillWorker string
	Class         link.Class
	link.Estimate
	MeasuredBy Source
}

// linksMax bounds the prefill workers that are remembered.
const linksMax = 256

// pair is the link with one prefill worker.
type pair struct {
	*link.Link // learns from transfers only
	class      link.Class
	first      link.Estimate // without transfers: the class's, or what a probe has found
	probed     bool
	reached    bool      // and it has not left; else it is known by its transfers alone
	last       time.Time // when something was learnt
}

func newPair(class link.Class) *pair {
	return &pair{Link: link.New(class.Start()), class: class, first: class.Start()}
}

func (p *pair) source() Source {
	switch {
	case p.Measured():
		return ByTransfers
	case p.probed:
		return ByProbe
	}
	return ByStart
}

// links are those with the prefill workers. Which of them takes a job is not known when it is
// queued, so that the decision goes by the mean over the jobs, and at first over the pairs; these
// tell them apart for people.
type links map[string]*pair

func (l links) add(now time.Time, peer string, bytes int, took time.Duration) {
	p := l[peer]
	if p == nil {
		p = newPair(link.Unknown)
		l.put(peer, p)
	}
	p.last = now
	p.Observe(bytes, took)
}

func (l links) put(peer string, p *pair) {
	if l[peer] == nil && len(l) >= linksMax {
		l.forgetOldest()
	}
	l[peer] = p
}

func (l links) forgetOldest() {
	oldest := ""
	for peer, e := range l {
		if oldest == "" || e.last.Before(l[oldest].last) {
			oldest = peer
		}
	}
	delete(l, oldest)
}

// fade forgets what was learnt too long ago; a probe's word counts while its peer is there.
func (l links) fade(now time.Time) {
	maps.DeleteFunc(l, func(_ string, p *pair) bool {
		old := now.Sub(p.last) > 2*keepFor
		if old && p.reached {
			p.Link = link.New(p.first)
		}
		return old && !p.reached
	})
}

// Reached says that a new life of a prefill worker was met, and by what. Nothing of its former
// life counts.
func (l *Learner) Reached(now time.Time, prefillWorker string, class link.Class) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := newPair(class)
	p.reached, p.last = true, now
	l.links.put(prefillWorker, p)
	l.believe()
}

// Probed takes in what a probe of a prefill worker that was reached has found. It counts until
// transfers have told, and where those were too long ago.
func (l *Learner) Probed(now time.Time, prefillWorker string, e link.Estimate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.links[prefillWorker]
	if p == nil || !p.reached {
		return
	}
	p.first, p.probed = e, true
	if !p.Measured() {
		p.Link, p.last = link.New(e), now
	}
	l.believe()
}

// Left forgets a prefill worker.
func (l *Learner) Left(prefillWorker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.links, prefillWorker)
	l.believe()
}

// believe works out what a decision goes by where transfers have not told: the mean over the
// prefill workers that were reached, else the start. The caller has mu.
func (l *Learner) believe() {
	var n, byteTime, latency float64
	for _, p := range l.links {
		if p.reached {
			n++
			byteTime += 1 / p.first.BytesPerSecond
			latency += p.first.Latency.Seconds()
		}
	}
	if n == 0 {
		n, byteTime, latency = 1, 1/l.start.LinkBytesPerSecond, l.start.LinkLatency.Seconds()
	}
	l.startByteTime, l.linkLatency = byteTime/n, latency/n
}

// Links are those with the prefill workers that were reached, or have written in the last
// minutes, by name.
func (l *Learner) Links(now time.Time) []Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links.fade(now)
	r := make([]Link, 0, len(l.links))
	for peer, p := range l.links {
		r = append(r, Link{peer, p.class, p.Estimate(), p.source()})
	}
	slices.SortFunc(r, func(a, b Link) int { return cmp.Compare(a.PrefillWorker, b.PrefillWorker) })
	return r
}
