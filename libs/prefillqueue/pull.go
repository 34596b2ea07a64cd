package prefillqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pullWait is how long one request for a job stays with the server.
	pullWait = 5 * time.Second
	// pullBeat is how often the server shows that the request is still with it; after two
	// silent beats it is taken for lost.
	pullBeat = 500 * time.Millisecond
	// Pauses between attempts while NATS does not answer.
	firstPause, longestPause = 20 * time.Millisecond, 500 * time.Millisecond
)

// Pull waits for the first job and returns it with what else is there, at most n jobs in
// all. It never asks for more: what it returns is all that is delivered. Outages of NATS
// are waited out, and a missing stream is made. The error is that of ctx; jobs that were
// delivered as ctx ended are returned with nil.
func (q *Queue) Pull(ctx context.Context, n int) ([]*Job, error) {
	if n < 1 {
		return nil, fmt.Errorf("pull %d jobs: want at least 1", n)
	}
	pause := firstPause
	for answering := true; ; {
		jobs, err := q.pullOnce(ctx, n)
		switch {
		case len(jobs) > 0:
			return jobs, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			answering, pause = true, firstPause
			continue
		case missing(err):
			if err = q.ensure(ctx); err == nil {
				continue
			}
		}
		if answering && ctx.Err() == nil {
			q.log.WarnContext(ctx, "no jobs to be had from nats, trying on", "error", err)
		}
		answering = false
		sleep(ctx, pause)
		pause = min(2*pause, longestPause)
	}
}

// TryPull is what Pull would return at once, which may be nothing.
func (q *Queue) TryPull(ctx context.Context, n int) ([]*Job, error) {
	if n < 1 {
		return nil, fmt.Errorf("pull %d jobs: want at least 1", n)
	}
	return q.pullNow(ctx, n)
}

func (q *Queue) pullNow(ctx context.Context, n int) ([]*Job, error) {
	if !q.conn.IsConnected() {
		return nil, ErrUnreachable // the library would leave a subscription behind
	}
	_, consumer, err := q.handles()
	if err != nil {
		return nil, err
	}
	batch, err := consumer.FetchNoWait(n)
	if err != nil {
		return nil, err
	}
	return q.collect(ctx, batch)
}

// pullOnce takes what is there, or else waits for one job: a waiting request for more
// would deliver jobs to somebody who went to work on the first.
func (q *Queue) pullOnce(ctx context.Context, n int) ([]*Job, error) {
	if n > 1 || !q.conn.IsConnected() { // the wait for one gets one that is there at once
		if jobs, err := q.pullNow(ctx, n); len(jobs) > 0 || err != nil || ctx.Err() != nil {
			return jobs, err
		}
	}
	_, consumer, err := q.handles()
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	batch, err := consumer.Fetch(1, jetstream.FetchContext(waiting), jetstream.FetchHeartbeat(pullBeat))
	if err != nil {
		return nil, err
	}
	jobs, err := q.collect(ctx, batch)
	if waiting.Err() != nil {
		err = nil // the wait is over, which is no fault
	}
	return jobs, err
}

func (q *Queue) collect(ctx context.Context, batch jetstream.MessageBatch) ([]*Job, error) {
	var jobs []*Job
	for msg := range batch.Messages() {
		job, err := newJob(msg, q.cfg.AckWait)
		if err == nil {
			jobs = append(jobs, job)
			continue
		}
		q.log.ErrorContext(ctx, "dropping a message that is no job", "error", err)
		if err := msg.TermWithReason(err.Error()); err != nil {
			q.log.WarnContext(ctx, "could not drop it", "error", err)
		}
	}
	return jobs, batch.Error()
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
