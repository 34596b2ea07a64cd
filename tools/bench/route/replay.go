package route

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Run replays the trace with a policy. progress, if any, is told how many of the
// requests have arrived. The error is a field that cannot be, or the context's.
func Run(ctx context.Context, t *Trace, cfg Config, policy string, kv KVConfig, progress func(done int)) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	if err := cfg.fits(t); err != nil {
		return Result{}, err
	}
	if err := kv.Validate(); err != nil {
		return Result{}, err
	}
	build, err := makerOf(policy, kv)
	if err != nil {
		return Result{}, err
	}
	r, err := newReplay(t, cfg, build)
	if err != nil {
		return Result{}, fmt.Errorf("policy %s: %w", policy, err)
	}
	if err := r.run(ctx, progress); err != nil {
		return Result{}, err
	}
	return r.result(policy), nil
}

// replay is the state of a run. Times are virtual, from the trace's begin.
type replay struct {
	cfg       Config
	trace     *Trace
	arrivals  []time.Duration
	sequences []sequence
	workers   []*worker
	ends      passEnds
	policies  []Policy // by processor
	news      []news   // on their way, in the order of their times
	tick      time.Duration
	gaps      []gap
	deciding  time.Duration // wall time
}

// gap is the time between two tokens of so many sequences.
type gap struct {
	took      time.Duration
	sequences int
}

// news is what processors tell each other.
type news struct {
	at      time.Duration
	tell    func(Policy, Booking)
	booking Booking
}

func newReplay(t *Trace, cfg Config, build maker) (*replay, error) {
	r := &replay{cfg: cfg, trace: t, arrivals: arrivals(t, cfg.Rate, cfg.Seed), sequences: make([]sequence, len(t.Requests)), tick: cfg.ReportEvery}
	cluster := &Cluster{Config: cfg, Trace: t}
	for range cfg.Workers {
		w := &worker{cfg: &r.cfg, cache: newCache(cfg.PoolBlocks, t.Runs), accepted: make([]uint64, cfg.Processors)}
		r.workers = append(r.workers, w)
		cluster.caches = append(cluster.caches, w.cache)
	}
	for i := range cfg.Processors {
		p, err := build(cluster, i, rand.New(rand.NewPCG(cfg.Seed, uint64(i)+1)))
		if err != nil {
			return nil, err
		}
		r.policies = append(r.policies, p)
	}
	r.listen()
	return r, nil
}

// listen lets the policies that want it know what becomes resident and is evicted.
func (r *replay) listen() {
	for i, w := range r.workers {
		var all watchers
		for _, p := range r.policies {
			if l, ok := p.(listener); ok {
				all = append(all, l.listen(i))
			}
		}
		if len(all) > 0 {
			w.cache.watch = all
		}
	}
}

// watchers tells all.
type watchers []watcher

func (w watchers) stored(run int32, from, to int) {
	for _, one := range w {
		one.stored(run, from, to)
	}
}

func (w watchers) removed(run int32, from, to int) {
	for _, one := range w {
		one.removed(run, from, to)
	}
}

func (r *replay) run(ctx context.Context, progress func(int)) error {
	for next := 0; next < len(r.arrivals) || len(r.ends) > 0; {
		end := forever
		if len(r.ends) > 0 {
			end = r.ends[0].at
		}
		arrival := forever
		if next < len(r.arrivals) {
			arrival = r.arrivals[next]
		}
		now := min(end, arrival)
		r.deliver(now)
		r.reports(now)
		if end == now { // who arrives at the same time finds the pass ended
			r.finish(int(r.ends[0].worker))
			continue
		}
		if err := r.arrive(next); err != nil {
			return err
		}
		next++
		if progress != nil && next%64 == 0 {
			progress(next)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

const forever = time.Duration(1<<63 - 1)

// arrive routes one request.
func (r *replay) arrive(index int) error {
	now, request := r.arrivals[index], &r.trace.Requests[index]
	processor := index % len(r.policies)
	policy := r.policies[processor]
	if p, ok := policy.(preparer); ok {
		p.prepare(request)
	}
	begin := time.Now()
	choice := policy.Pick(now, request)
	r.deciding += time.Since(begin)
	if choice.Worker < 0 || choice.Worker >= len(r.workers) {
		return fmt.Errorf("request %d: the policy picked worker %d of %d", index+1, choice.Worker, len(r.workers))
	}
	w := r.workers[choice.Worker]
	number := uint64(1)
	for _, n := range w.accepted {
		number += n
	}
	s := &r.sequences[index]
	*s = sequence{request: request, booking: Booking{Request: request, Choice: choice, Number: number, Processor: processor}, arrived: now}
	begin = time.Now()
	policy.Booked(s.booking)
	r.deciding += time.Since(begin)
	r.share(now, Policy.Booked, s.booking)
	w.accept(s)
	if !w.running {
		r.start(choice.Worker, now)
	}
	return nil
}

// share lets the other processors know.
func (r *replay) share(now time.Duration, tell func(Policy, Booking), b Booking) {
	if len(r.policies) == 1 || r.cfg.Share == Never {
		return
	}
	r.news = append(r.news, news{at: now + r.cfg.Share, tell: tell, booking: b})
	if r.cfg.Share == 0 {
		r.deliver(now)
	}
}

// deliver hands out the news that have arrived by now.
func (r *replay) deliver(now time.Duration) {
	for len(r.news) > 0 && r.news[0].at <= now {
		n := r.news[0]
		r.news = r.news[1:]
		for i, p := range r.policies {
			if i != n.booking.Processor {
				n.tell(p, n.booking)
			}
		}
	}
}

func (r *replay) start(index int, now time.Duration) {
	if w := r.workers[index]; w.start(now) {
		heap.Push(&r.ends, passEnd{at: w.pass.ends, worker: int32(index)})
	}
}

// finish ends the pass of the worker whose pass ends first, and begins its next one.
func (r *replay) finish(index int) {
	heap.Pop(&r.ends)
	w := r.workers[index]
	if len(w.decoding) > 0 {
		r.gaps = append(r.gaps, gap{took: w.pass.took, sequences: len(w.decoding)})
	}
	w.finish()
	now := w.pass.ends
	for _, s := range w.begun {
		r.tell(now, s, Policy.FirstToken)
	}
	for _, s := range w.finished {
		r.tell(now, s, Policy.Ended)
	}
	if r.cfg.ReportEvery == 0 {
		r.report(now, index)
	}
	r.start(index, now)
}

// tell lets the processor of a sequence know, and through it the others.
func (r *replay) tell(now time.Duration, s *sequence, what func(Policy, Booking)) {
	what(r.policies[s.booking.Processor], s.booking)
	r.share(now, what, s.booking)
}

func (r *replay) report(now time.Duration, index int) {
	report := r.workers[index].report()
	for _, p := range r.policies {
		p.Report(now, index, report)
	}
}

// reports lets all workers report that should have by now.
func (r *replay) reports(now time.Duration) {
	if r.cfg.ReportEvery == 0 || r.tick > now {
		return
	}
	for i := range r.workers {
		r.report(now, i)
	}
	r.tick = now - now%r.cfg.ReportEvery + r.cfg.ReportEvery
}

// passEnds orders the running passes by their end, then by worker.
type passEnds []passEnd

type passEnd struct {
	at     time.Duration
	worker int32
}

func (p passEnds) Len() int { return len(p) }
func (p passEnds) Less(i, j int) bool {
	return p[i].at < p[j].at || p[i].at == p[j].at && p[i].worker < p[j].worker
}
func (p passEnds) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *passEnds) Push(x any)   { *p = append(*p, x.(passEnd)) }
func (p *passEnds) Pop() any {
	last := len(*p) - 1
	e := (*p)[last]
	*p = (*p)[:last]
	return e
}
