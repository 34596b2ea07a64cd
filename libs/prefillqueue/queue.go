package prefillqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// deduplication is how long a message id is remembered.
	deduplication = 2 * time.Minute
	// idleConsumer is how long the consumer of a queue that nobody uses stays, so that KV
	// formats of the past leave nothing behind.
	idleConsumer = time.Hour
	// ensureTimeout bounds the making of stream and consumer.
	ensureTimeout = 2 * time.Second
)

// Queue is the jobs of one pool, KV format and priority. Its methods may be called from
// any goroutine.
type Queue struct {
	conn *nats.Conn
	js   jetstream.JetStream
	cfg  Config
	log  *slog.Logger

	making sync.Mutex // one of this process makes stream and consumer at a time

	mu       sync.Mutex // guards the handles, which work by name and outlive a restart of NATS
	stream   jetstream.Stream
	consumer jetstream.Consumer

	depth depthCache
	keeps atomic.Bool // something was published for one worker: jobs of theirs count
}

// errNoJetStream says how to mend it: Debian's own service runs without.
var errNoJetStream = errors.New("nats runs without JetStream, want it with (nats-server -js)")

// Open makes stream and consumer if they are not there, and brings their limits to cfg's. While
// the connection is down it returns at once, and they are made when NATS is there.
func Open(ctx context.Context, nc *nats.Conn, cfg Config, log *slog.Logger) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("prefill queue: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open prefill queue: %w", err)
	}
	q := &Queue{conn: nc, js: js, cfg: cfg, log: log.With("queue", cfg.subject())}
	if !nc.IsConnected() {
		return q, nil // whoever first needs it makes it
	}
	if err := q.ensure(ctx); errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("open prefill queue at %s: %w", nc.ConnectedUrlRedacted(), errNoJetStream)
	} else if err != nil {
		return nil, fmt.Errorf("open prefill queue at %s: %w", nc.ConnectedUrlRedacted(), err)
	}
	return q, nil
}

// ensure makes what is missing.
func (q *Queue) ensure(ctx context.Context) error {
	q.making.Lock()
	defer q.making.Unlock()
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	stream, err := q.ensureStream(ctx)
	if err != nil {
		return fmt.Errorf("stream %s: %w", q.cfg.Stream, err)
	}
	consumer, err := q.js.CreateOrUpdateConsumer(ctx, q.cfg.Stream, jetstream.ConsumerConfig{
		Durable:           q.cfg.consumer(),
		FilterSubject:     q.cfg.subject(),
		AckPolicy:         jetstream.AckExplicitPolicy,
		AckWait:           q.cfg.AckWait,
		MaxDeliver:        -1,
		MaxAckPending:     q.cfg.MaxAckPending,
		InactiveThreshold: idleConsumer,
		Replicas:          q.cfg.Replicas,
		MemoryStorage:     true,
	})
	if err != nil {
		return fmt.Errorf("consumer %s: %w", q.cfg.consumer(), err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stream, q.consumer = stream, consumer
	return nil
}

func (q *Queue) ensureStream(ctx context.Context) (jetstream.Stream, error) {
	want := jetstream.StreamConfig{
		Name:                 q.cfg.Stream,
		Subjects:             []string{q.cfg.subjects()},
		Retention:            jetstream.WorkQueuePolicy,
		Storage:              jetstream.MemoryStorage,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		MaxMsgsPerSubject:    int64(q.cfg.MaxJobs),
		AllowMsgTTL:          true,
		Duplicates:           deduplication,
		Replicas:             q.cfg.Replicas,
		// A stream made anew must not count from 1: a job of the old one, deleted late by
		// its number, would take a job of the new one with it.
		FirstSeq: uint64(time.Now().UnixMicro()),
	}
	for {
		stream, err := q.js.Stream(ctx, q.cfg.Stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			stream, err = q.js.CreateStream(ctx, want)
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				continue // another process was quicker; its first number stands
			}
			if err == nil {
				q.log.InfoContext(ctx, "made the stream", "stream", q.cfg.Stream)
			}
			return stream, err
		}
		if err != nil {
			return nil, err
		}
		has := stream.CachedInfo().Config
		if has.MaxMsgsPerSubject == want.MaxMsgsPerSubject && has.Replicas == want.Replicas {
			return stream, nil
		}
		want.FirstSeq = has.FirstSeq
		return q.js.UpdateStream(ctx, want)
	}
}

// handles are those of the stream and the consumer; missing(err) until both were made.
func (q *Queue) handles() (jetstream.Stream, jetstream.Consumer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream == nil || q.consumer == nil {
		return nil, nil, jetstream.ErrStreamNotFound
	}
	return q.stream, q.consumer, nil
}

// missing says that NATS answers but has lost stream or consumer.
func missing(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrConsumerDoesNotExist) || errors.Is(err, jetstream.ErrConsumerDeleted)
}

// disconnected says that there is no connection to send over.
func disconnected(err error) bool {
	return errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrDisconnected)
}
