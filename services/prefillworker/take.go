package prefillworker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	"github.com/switchyard-llm/switchyard/libs/run"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// puller takes jobs while there is room for them. Jobs run under the engine's context, so
// that they can finish after the taking has ended.
type puller struct {
	p       *PrefillWorker
	slots   chan struct{} // holds one entry per job in work
	working context.Context
	work    sync.WaitGroup
}

// pull takes jobs until ctx ends, and returns once those in work have ended.
func (p *PrefillWorker) pull(ctx, engine context.Context) error {
	working, cancel := context.WithCancel(engine)
	defer cancel()
	l := &puller{p: p, slots: make(chan struct{}, p.cfg.Jobs), working: working}
	defer func() {
		timer := time.AfterFunc(p.cfg.Drain, cancel)
		l.work.Wait()
		timer.Stop()
	}()
	g, ctx := run.NewGroup(ctx)
	if p.deps.Kept != nil {
		g.Go("kept", l.takeKept)
	}
	g.Go("shared", l.takeShared)
	return g.Wait()
}

// takeKept takes the jobs that are kept for this worker: each waits here for room. One that waits
// too long is shared by its decode worker, and its claim says so.
func (l *puller) takeKept(ctx context.Context) error {
	for {
		jobs, err := l.p.deps.Kept.Pull(ctx, 1)
		if err != nil {
			return fmt.Errorf("take a job: %w", err)
		}
		for _, job := range jobs {
			select {
			case l.slots <- struct{}{}:
				l.begin(job)
			case <-ctx.Done():
				l.giveBack(ctx, job)
			}
		}
	}
}

// takeShared takes the jobs that are everybody's, while there is room.
func (l *puller) takeShared(ctx context.Context) error {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		// An outage shows in the wait below, too.
		if jobs, _ := l.p.deps.Queue.TryPull(ctx, 1); len(jobs) > 0 {
			l.begin(jobs[0])
			continue
		}
		<-l.slots
		if err := l.awaitShared(ctx); err != nil {
			return err
		}
	}
}

// awaitShared waits for a job that is everybody's. The wait takes no room, as that would be missed
// by the jobs that are kept.
func (l *puller) awaitShared(ctx context.Context) error {
	jobs, err := l.p.deps.Queue.Pull(ctx, 1)
	if err != nil {
		return fmt.Errorf("take a job: %w", err)
	}
	for _, job := range jobs {
		select {
		case l.slots <- struct{}{}:
			l.begin(job)
		default: // kept ones were quicker
			l.giveBack(ctx, job)
		}
	}
	return nil
}

// begin works on a job that has its slot.
func (l *puller) begin(job *prefillqueue.Job) {
	l.work.Go(func() {
		defer func() { <-l.slots }()
		l.p.work(job.Context(l.working), job)
	})
}

// giveBack lets another worker have a job at once.
func (l *puller) giveBack(ctx context.Context, job *prefillqueue.Job) {
	l.p.tally(func(r *prefillworkerv1.JobReport) { r.GivenBack++ })
	if err := job.Nak(0); err != nil {
		l.p.log.WarnContext(ctx, "a job could not be given back; it comes again later", "transfer_id", job.Request.GetTransferId(), "error", err)
	}
}
