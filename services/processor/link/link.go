// Package link carries all sequences between this processor and one decode worker over
// one bidirectional stream, DecodeWorker.Attach.
//
// A Link keeps the stream open, and opens it anew when it breaks; a Sequence is one
// generation on it. The package does not pick workers and does not retry a sequence: that
// is the processor's. Run owns the link's goroutines, one that reads and one that sends.
// The reader never waits for the consumer of a sequence: tokens go into a queue of the
// sequence, which the sequence's own limit bounds.
package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const (
	backoffMin = 50 * time.Millisecond
	backoffMax = time.Second
	// attachTimeout bounds the wait for a worker's first word on a new stream.
	attachTimeout = 5 * time.Second
)

// ErrEnded says that the incarnation a link was made for has ended.
var ErrEnded = errors.New("the worker's incarnation has ended")

// Events tells the owner of a link what became of the stream. The calls come from Run, one
// at a time; they must not block. Submits are possible from just before Attached until just
// before Detached.
type Events interface {
	// Attached: the worker has accepted a new stream; its bookings start at 1.
	Attached()
	// Detached: the stream broke. Its sequences learn it after this call.
	Detached(error)
	// Loaded: the worker reported its load.
	Loaded(*decodeworkerv1.Load)
}

// Config says who attaches to whom.
type Config struct {
	// Processor and Incarnation name this processor and this life of it.
	Processor, Incarnation string
	// Worker and WorkerIncarnation name the worker and the life of it that is meant.
	Worker, WorkerIncarnation string
	// Client reaches the worker.
	Client decodeworkerv1.DecodeWorkerClient
	// Events hears what happens.
	Events Events
	// Logger hears of streams that open and break.
	Logger *slog.Logger
}

// Link is the way to one life of a worker.
type Link struct {
	cfg   Config
	drain chan struct{} // closed by the first Drain
	once  sync.Once

	mu     sync.Mutex
	stream *stream // nil while none is open
}

// New returns a link that is not connected; Run connects it.
func New(cfg Config) *Link {
	return &Link{cfg: cfg, drain: make(chan struct{})}
}

// Drain refuses further submits, and ends Run as soon as no sequence is left or the stream
// breaks. It does not wait.
func (l *Link) Drain() {
	l.once.Do(func() { close(l.drain) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		l.stream.drain()
	}
}

func (l *Link) draining() bool {
	select {
	case <-l.drain:
		return true
	default:
		return false
	}
}

// Run keeps a stream open until ctx ends or the link is drained, and then returns nil, or
// until the worker says that it is another incarnation, and then returns ErrEnded.
// Reconnects are at most a second apart.
func (l *Link) Run(ctx context.Context) error {
	backoff := backoffMin
	for {
		accepted, err := l.attach(ctx)
		switch {
		case ctx.Err() != nil || l.draining():
			return nil
		case status.Code(err) == codes.FailedPrecondition:
			return fmt.Errorf("attach to %s: %w: %v", l.cfg.Worker, ErrEnded, err)
		case accepted:
			backoff = backoffMin
		}
		l.cfg.Logger.Debug("attach stream ended", "worker_id", l.cfg.Worker, "accepted", accepted, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-l.drain:
			return nil
		case <-time.After(backoff/2 + rand.N(backoff/2)):
		}
		backoff = min(2*backoff, backoffMax)
	}
}

// attach runs one stream to its end and says whether the worker had accepted it.
func (l *Link) attach(ctx context.Context) (accepted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slow := time.AfterFunc(attachTimeout, cancel)
	defer slow.Stop()

	client, first, err := l.greet(ctx)
	if !slow.Stop() {
		return false, fmt.Errorf("attach to %s: no word within %v", l.cfg.Worker, attachTimeout)
	}
	if err != nil {
		return false, err
	}
	s := newStream(cancel)
	l.open(s)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.send(ctx, client)
	}()
	err = l.receive(client, s, first)
	cancel()
	<-sent
	l.close(s, err)
	return true, err
}

// greet opens a stream and returns it with the worker's first message, which says that it
// is the worker that was meant.
func (l *Link) greet(ctx context.Context) (decodeworkerv1.DecodeWorker_AttachClient, *decodeworkerv1.AttachResponse, error) {
	client, err := l.cfg.Client.Attach(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = client.Send(&decodeworkerv1.AttachRequest{Message: &decodeworkerv1.AttachRequest_Hello{Hello: &decodeworkerv1.Hello{
		Processor: l.cfg.Processor, ProcessorIncarnation: l.cfg.Incarnation, WorkerIncarnation: l.cfg.WorkerIncarnation,
	}}})
	if err != nil && !errors.Is(err, io.EOF) { // of io.EOF the receiver knows the reason
		return nil, nil, err
	}
	first, err := client.Recv()
	return client, first, err
}

func (l *Link) open(s *stream) {
	l.mu.Lock()
	l.stream = s
	if l.draining() {
		s.drain()
	}
	l.mu.Unlock()
	l.cfg.Logger.Info("attached to decode worker", "worker_id", l.cfg.Worker, "incarnation", l.cfg.WorkerIncarnation)
	l.cfg.Events.Attached()
}

// close takes the stream out of use before its sequences hear of it, so that their next
// attempt does not land here.
func (l *Link) close(s *stream, err error) {
	l.mu.Lock()
	l.stream = nil
	l.mu.Unlock()
	l.cfg.Logger.Info("detached from decode worker", "worker_id", l.cfg.Worker, "error", err)
	l.cfg.Events.Detached(err)
	code := status.Code(err)
	s.fail(&BrokenError{Worker: l.cfg.Worker, Lost: code == codes.Unavailable || code == codes.FailedPrecondition, Err: err})
}

// receive reads until the stream ends.
func (l *Link) receive(client decodeworkerv1.DecodeWorker_AttachClient, s *stream, first *decodeworkerv1.AttachResponse) error {
	for response := first; ; {
		switch m := response.GetMessage().(type) {
		case *decodeworkerv1.AttachResponse_Batch:
			if err := s.deliver(m.Batch); err != nil {
				return fmt.Errorf("stream of %s: %w", l.cfg.Worker, err)
			}
		case *decodeworkerv1.AttachResponse_Load:
			l.cfg.Events.Loaded(m.Load)
		}
		var err error
		if response, err = client.Recv(); err != nil {
			return err
		}
	}
}

// Submission is a sequence to run.
type Submission struct {
	// Booking is the number that the router gave it.
	Booking uint64
	// Sequence is what to run; it is not changed, and must not be.
	Sequence *generationv1.Sequence
	// TraceContext is the W3C trace context; nil when not traced.
	TraceContext map[string]string
}

// Submit puts a sequence on the stream, in the order of the calls. It does not wait; it
// returns nil while no stream is open, and after Drain.
func (l *Link) Submit(sub Submission) *Sequence {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream == nil || l.draining() {
		return nil
	}
	return l.stream.submit(sub)
}

// BrokenError ends the sequences of a stream that broke.
type BrokenError struct {
	// Worker is the worker's name.
	Worker string
	// Lost says that the worker could not be reached any more, rather than that it or this
	// processor ended the stream. A lost worker may still live.
	Lost bool
	// Err is how the stream ended.
	Err error
}

func (e *BrokenError) Error() string {
	if e.Lost {
		return fmt.Sprintf("decode worker %s was lost: %v", e.Worker, e.Err)
	}
	return fmt.Sprintf("stream to decode worker %s ended: %v", e.Worker, e.Err)
}

func (e *BrokenError) Unwrap() error { return e.Err }
