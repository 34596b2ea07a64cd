package kvevent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/protobuf/proto"

	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// Bounds of what NATS keeps for a follower that is behind; what comes beyond is a gap.
const pendingMessages, pendingBytes = 1 << 16, 64 << 20

// departedFor is how long events of a worker that was forgotten are known to be late ones.
const departedFor = time.Minute

// Parts is a stream of the parts of a snapshot; io.EOF ends it.
type Parts interface {
	Recv() (*kveventv1.SnapshotPart, error)
}

// Deps are what a Follower works with.
type Deps struct {
	// NATS carries the batches. Nil: they come by Receive alone.
	NATS *nats.Conn
	// Snapshot asks a worker, until ctx ends; PartsOf makes Parts of either service's stream.
	Snapshot func(ctx context.Context, s Source) (Parts, error)
	// Known says whether a source is there; events of another are dropped, as anybody may have sent
	// them. It must not call the Follower. Nil: all are.
	Known  func(s Source) bool
	Sink   Sink
	Logger *slog.Logger
	Meter  metric.MeterProvider // nil: nothing is measured
}

// Follower follows what all workers of a model hold.
type Follower struct {
	cfg  FollowerConfig
	deps Deps
	log  *slog.Logger

	// What callers say is taken by the loop, so that none of them waits for the sink.
	inboxMu sync.Mutex         // guards inbox
	inbox   map[string]*notice // nil: nothing was said
	wake    chan struct{}      // capacity 1: the loop has something to do

	mu       sync.Mutex // guards all below, and the calls of the sink
	members  map[string]*member
	departed []departure // in the order of their time
	timers   timers
	ready    []*stream // whose request is due
	streams  int
	asking   int    // snapshots under way
	buffered uint64 // events, of all streams
	counts   Counts
	dropped  func() (int, error) // messages, by NATS
	fetches  sync.WaitGroup
}

// NewFollower returns a follower; Run makes it follow.
func NewFollower(cfg FollowerConfig, deps Deps) (*Follower, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("kv event follower: %w", err)
	}
	f := &Follower{
		cfg: cfg, deps: deps, log: deps.Logger.With("pool", cfg.Pool, "model", cfg.Model),
		wake: make(chan struct{}, 1), members: make(map[string]*member),
	}
	if err := f.observe(deps.Meter); err != nil {
		return nil, fmt.Errorf("kv event follower: %w", err)
	}
	return f, nil
}

// Run follows until ctx ends; it subscribes before it asks for the first snapshot. It returns
// when nothing of it calls the sink any more. An error says that NATS refused the subscription.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var receiver sync.WaitGroup
	defer f.fetches.Wait()
	defer receiver.Wait()
	defer cancel()
	if f.deps.NATS != nil {
		sub, err := f.subscribe()
		if err != nil {
			return err
		}
		receiver.Go(func() { f.receiveAll(ctx, sub) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if next := f.turn(ctx); next > 0 {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		case <-timer.C:
		}
	}
}

func (f *Follower) subscribe() (*nats.Subscription, error) {
	sub, err := f.deps.NATS.SubscribeSync(subjects(f.cfg.Pool, f.cfg.Model))
	if err == nil {
		err = sub.SetPendingLimits(pendingMessages, pendingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to the kv events of %s: %w", f.cfg.Model, err)
	}
	if f.deps.NATS.IsConnected() {
		// Without an answer it holds all the same: NATS is told again when it is back.
		if err := f.deps.NATS.FlushTimeout(time.Second); err != nil {
			f.log.Warn("nats has not confirmed the subscription to kv events", "error", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = sub.Dropped
	return sub, nil
}

// receiveAll takes batches until ctx ends.
func (f *Follower) receiveAll(ctx context.Context, sub *nats.Subscription) {
	defer func() {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			f.log.Warn("cannot end the subscription to kv events", "error", err)
		}
	}()
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			batch := &kveventv1.Batch{}
			if err := proto.Unmarshal(m.Data, batch); err != nil {
				f.malformed(m.Subject, err)
				continue
			}
			f.Receive(batch)
		case errors.Is(err, nats.ErrSlowConsumer): // some were dropped, which their numbers will show
		case ctx.Err() != nil:
			return
		default:
			f.log.Warn("no more kv events come", "error", err) // the connection was closed
			return
		}
	}
}

func (f *Follower) malformed(from string, err error) {
	f.mu.Lock()
	f.counts.Malformed++
	first := f.counts.Malformed == 1
	f.mu.Unlock()
	if first { // of what may be many
		f.log.Warn("a batch of kv events cannot be read; further ones are only counted", "from", from, "error", err)
	}
}

// signal makes the loop turn.
func (f *Follower) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
