// Package serve loads a server that speaks OpenAI's API over HTTP and measures what its
// clients see: times of first and further tokens, rates, failures, and the CPU time of its
// processes. What is sent depends on a seed only.
//
// It is for tools only. Run's goroutines end before it does.
package serve

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Run loads the server and returns what was measured. A cancelled context ends it early:
// the result has what was measured until then. An error is that there is nothing to measure.
func Run(ctx context.Context, cfg Config) (*Result, error) { return runOver(ctx, cfg, nil) }

func runOver(ctx context.Context, cfg Config, dial dialer) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.complete()
	if _, err := watch(cfg.PIDs); err != nil {
		return nil, err
	}
	c := newClient(&cfg, dial)
	defer c.close()
	model := cfg.Model
	if model == "" {
		var err error
		if model, err = c.firstModel(ctx); err != nil {
			return nil, err
		}
	}
	p, err := prepare(ctx, c, &cfg, model)
	if err != nil {
		return nil, err
	}
	if err := warmUp(ctx, c, &cfg, p); err != nil {
		return nil, err
	}
	return measure(ctx, &run{cfg: &cfg, client: c, prompts: p, model: model})
}

// prepare finds out how many words a token has where that matters, from two prompts whose
// difference has no part of a chat's template.
func prepare(ctx context.Context, c *client, cfg *Config, model string) (*prompts, error) {
	p, err := newPrompts(cfg, model, 1)
	if err != nil || (cfg.Trace == nil && cfg.ISLUnit == Words) {
		return p, err
	}
	const few, many = 100, 400
	counted := map[int]int{}
	for _, words := range []int{few, many} {
		r := &reading{keys: c.keys}
		if err := c.do(ctx, p.probe(words), newEvents(), r); err != nil && !r.sample.Counted {
			return nil, fmt.Errorf("measure how many tokens a word has: %w", err)
		}
		counted[words] = r.sample.Input
	}
	tokens := counted[many] - counted[few]
	if tokens <= 0 {
		return nil, fmt.Errorf("measure how many tokens a word has: the server counts %d tokens in %d words and %d in %d", counted[few], few, counted[many], many)
	}
	p.wordsPerToken = float64(many-few) / float64(tokens)
	return p, nil
}

// warmUp sends requests that are not measured. Their failures are an error: those of the run
// would be the same.
func warmUp(ctx context.Context, c *client, cfg *Config, p *prompts) error {
	if cfg.Warmup == 0 {
		return nil
	}
	r := &run{cfg: &Config{Requests: cfg.Warmup, Concurrency: max(cfg.Concurrency, min(cfg.Warmup, 8)), Progress: cfg.Progress}, client: c, prompts: p, warming: true}
	result, err := measure(ctx, r)
	if err != nil {
		return err
	}
	if result.Interrupted {
		return fmt.Errorf("warm up: %w", ctx.Err())
	}
	if len(result.Samples) == 0 {
		return fmt.Errorf("warm up: all %d requests are without answer: %s: %s", cfg.Warmup, result.Faults[0].Kind, result.Faults[0].Message)
	}
	return nil
}

// run is one run under way. The mutex guards result.
type run struct {
	cfg     *Config
	client  *client
	prompts *prompts
	model   string
	warming bool

	begin         time.Time
	ended, failed atomic.Int64
	mu            sync.Mutex
	result        Result
}

func measure(ctx context.Context, r *run) (*Result, error) {
	runtime.GC() // so that less of it is in the run
	pids := r.cfg.PIDs
	if runtime.GOOS == "linux" && !r.warming {
		pids = append([]int{os.Getpid()}, pids...)
	}
	stop, err := watch(pids)
	if err != nil {
		return nil, err
	}
	r.begin = time.Now()
	quiet := r.showProgress()
	if r.cfg.Concurrency > 0 {
		r.closed(ctx)
	} else {
		r.open(ctx)
	}
	r.result.Elapsed = time.Since(r.begin)
	r.result.Processes = stop()
	quiet()
	if len(pids) > len(r.cfg.PIDs) {
		r.result.Client, r.result.Processes = r.result.Processes[0].CPU, r.result.Processes[1:]
	}
	r.result.Model, r.result.Interrupted = r.model, ctx.Err() != nil
	r.result.finish()
	return &r.result, nil
}

// closed keeps so many requests under way.
func (r *run) closed(ctx context.Context) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range min(r.cfg.Concurrency, r.most()) {
		group.Go(func() {
			s := newScratch()
			for ctx.Err() == nil && (r.cfg.Duration == 0 || time.Since(r.begin) < r.cfg.Duration) {
				index := int(next.Add(1)) - 1
				if index >= r.most() {
					return
				}
				s.body = r.body(s.body[:0], index)
				r.one(ctx, s, 0)
			}
		})
	}
	group.Wait()
}

// open sends requests when they are due, however many are under way.
func (r *run) open(ctx context.Context) {
	var group sync.WaitGroup
	scratches := sync.Pool{New: func() any { return newScratch() }}
	next := arrivals(r.cfg)
	for index := range r.most() {
		at := next()
		if r.cfg.Duration > 0 && at >= r.cfg.Duration {
			break
		}
		s := scratches.Get().(*scratch)
		s.body = r.body(s.body[:0], index)
		if !sleep(ctx, at-time.Since(r.begin)) {
			break
		}
		group.Go(func() {
			r.one(ctx, s, time.Since(r.begin)-at)
			scratches.Put(s)
		})
	}
	group.Wait()
}

func (r *run) most() int {
	if r.cfg.Requests == 0 {
		return math.MaxInt
	}
	return r.cfg.Requests
}

func (r *run) body(dst []byte, index int) []byte {
	if r.warming {
		return r.prompts.warmup(dst, index)
	}
	return r.prompts.body(dst, index)
}

// scratch is memory that one request after the other uses.
type scratch struct {
	body   []byte
	events *events
	gaps   []time.Duration
}

func newScratch() *scratch { return &scratch{events: newEvents()} }

// one sends a request and keeps what it measured.
func (r *run) one(ctx context.Context, s *scratch, late time.Duration) {
	answer := reading{keys: r.client.keys, gaps: s.gaps[:0]}
	err := r.client.do(ctx, s.body, s.events, &answer)
	s.gaps = answer.gaps
	answer.sample.Late = late
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Limited += answer.sample.Limited
	if err == nil {
		r.ended.Add(1)
		r.result.add(answer.sample, answer.gaps)
		return
	}
	if ctx.Err() != nil { // the end of the run, not of the server
		r.result.Unfinished++
		return
	}
	r.ended.Add(1)
	r.failed.Add(1)
	r.result.fail(faultOf(err))
}

const progressEvery = 100 * time.Millisecond

// showProgress calls Progress until the function that it returns is called.
func (r *run) showProgress() (stop func()) {
	if r.cfg.Progress == nil {
		return func() {}
	}
	ended := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				r.cfg.Progress(r.progress())
			}
		}
	})
	return func() { close(ended); group.Wait() }
}

func (r *run) progress() Progress {
	p := Progress{Warming: r.warming, Ended: int(r.ended.Load()), Failed: int(r.failed.Load()), Elapsed: time.Since(r.begin)}
	if r.cfg.Requests > 0 {
		p.Share = float64(p.Ended) / float64(r.cfg.Requests)
	}
	if r.cfg.Duration > 0 {
		p.Share = min(1, max(p.Share, p.Elapsed.Seconds()/r.cfg.Duration.Seconds()))
	}
	return p
}
