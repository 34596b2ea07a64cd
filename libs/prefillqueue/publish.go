package prefillqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/proto"

	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

var (
	// ErrFull says that the queue's bound is reached.
	ErrFull = errors.New("the prefill queue is full")
	// ErrTimeout says that NATS did not confirm in time; the job may still be delivered.
	ErrTimeout = errors.New("nats did not confirm the job in time")
	// ErrUnreachable says that there is no connection to NATS; the job was not sent.
	ErrUnreachable = errors.New("nats is unreachable")
	// ErrNoStream says that the stream is not there and could not be made.
	ErrNoStream = errors.New("the prefill stream is missing")
	// ErrExpired says that the job's deadline has passed, or is not set.
	ErrExpired = errors.New("the job's deadline has passed")
)

// Publish puts a job into the queue and returns its number in the stream, for Delete. The
// job disappears by itself within a second after its deadline, which is required. A
// messageID that was used within two minutes adds nothing and returns the first job's
// number; an empty one is the transfer's id. The trace context of ctx goes along.
//
// A job larger than MaxMessageBytes goes without its sequence: the worker asks for it
// when it claims.
//
// It returns within PublishTimeout, with one of the errors above, the end of ctx, or what
// NATS said. After every error but ErrTimeout and the end of ctx the job is not in the queue.
func (q *Queue) Publish(ctx context.Context, job *transferv1.RemotePrefillRequest, messageID string) (sequence uint64, err error) {
	return q.publish(ctx, q.cfg, job, messageID)
}

// PublishFor is Publish into the queue of the jobs that are kept for one prefill worker, which
// nobody else gets: the caller takes the job back when it has waited long enough.
func (q *Queue) PublishFor(ctx context.Context, worker string, job *transferv1.RemotePrefillRequest, messageID string) (sequence uint64, err error) {
	q.keeps.Store(true)
	cfg := q.cfg
	cfg.Worker = worker
	return q.publish(ctx, cfg, job, messageID)
}

func (q *Queue) publish(ctx context.Context, to Config, job *transferv1.RemotePrefillRequest, messageID string) (sequence uint64, err error) {
	ttl := time.Until(job.GetDeadline().AsTime())
	if !job.GetDeadline().IsValid() || ttl <= 0 {
		return 0, fmt.Errorf("publish job %s: %w", job.GetTransferId(), ErrExpired)
	}
	if !q.conn.IsConnected() {
		return 0, fmt.Errorf("publish job %s: %w", job.GetTransferId(), ErrUnreachable)
	}
	data, err := q.encode(job)
	if err != nil {
		return 0, fmt.Errorf("publish job %s: %w", job.GetTransferId(), err)
	}
	if messageID == "" {
		messageID = job.GetTransferId()
	}
	header := make(nats.Header, 4)
	propagation.TraceContext{}.Inject(ctx, carrier(header))
	limited, cancel := context.WithTimeout(ctx, q.cfg.PublishTimeout)
	defer cancel()
	send := func() (*jetstream.PubAck, error) {
		return q.js.PublishMsg(limited, &nats.Msg{Subject: to.subject(), Header: header, Data: data},
			jetstream.WithMsgID(messageID), jetstream.WithMsgTTL(wholeSeconds(ttl)),
			jetstream.WithExpectStream(q.cfg.Stream), jetstream.WithRetryAttempts(0))
	}
	ack, err := send()
	if missing(err) {
		if err := q.ensure(limited); err != nil {
			return 0, fmt.Errorf("publish job %s: %w: %w", job.GetTransferId(), ErrNoStream, err)
		}
		ack, err = send()
	}
	if err != nil {
		return 0, fmt.Errorf("publish job %s: %w", job.GetTransferId(), cause(ctx, err))
	}
	return ack.Sequence, nil
}

// encode leaves the sequence out when the job would be too large with it.
func (q *Queue) encode(job *transferv1.RemotePrefillRequest) ([]byte, error) {
	limit := min(int64(q.cfg.MaxMessageBytes), q.conn.MaxPayload()-4096) // room for headers
	if int64(proto.Size(job)) > limit && job.GetSequence() != nil {
		job = &transferv1.RemotePrefillRequest{
			TransferId:        job.GetTransferId(),
			DecodeWorker:      job.GetDecodeWorker(),
			DecodeIncarnation: job.GetDecodeIncarnation(),
			PromptTokens:      job.GetPromptTokens(),
			CachedTokens:      job.GetCachedTokens(),
			ReservedBlocks:    job.GetReservedBlocks(),
			KvFormat:          job.GetKvFormat(),
			Deadline:          job.GetDeadline(),
		}
	}
	return proto.Marshal(job)
}

// wholeSeconds rounds up: NATS knows nothing finer, and the deadline in the job decides.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// cause tells the caller's own end from ours, and both from what NATS says.
func cause(ctx context.Context, err error) error {
	var api *jetstream.APIError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout):
		return ErrTimeout
	case disconnected(err):
		return ErrUnreachable
	case missing(err):
		return ErrNoStream
	case errors.As(err, &api) && outOfRoom(api):
		return ErrFull
	default:
		return err
	}
}

func outOfRoom(err *jetstream.APIError) bool {
	const (
		storeFailed           jetstream.ErrorCode = 10077 // any reason; the text says which
		insufficientResources jetstream.ErrorCode = 10023
		memoryExceeded        jetstream.ErrorCode = 10028
	)
	switch err.ErrorCode {
	case insufficientResources, memoryExceeded:
		return true
	case storeFailed:
		return strings.HasPrefix(err.Description, "maximum ")
	default:
		return false
	}
}

// Delete takes a job out of the queue by its number, wherever it is. A job that is not
// there any more is no error. A worker that has it already is not told.
func (q *Queue) Delete(ctx context.Context, sequence uint64) error {
	stream, _, err := q.handles()
	if err == nil {
		err = stream.DeleteMsg(ctx, sequence)
	}
	switch {
	case err == nil || missing(err):
		return nil
	case errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) && strings.Contains(err.Error(), "not found"):
		return nil // the library keeps only the text of NATS's error
	case disconnected(err):
		err = ErrUnreachable
	}
	return fmt.Errorf("delete job %d: %w", sequence, err)
}

// carrier is the headers of a message, by their exact names.
type carrier nats.Header

var _ propagation.TextMapCarrier = carrier(nil)

// Get is the first value of a header.
func (c carrier) Get(key string) string { return nats.Header(c).Get(key) }

// Set replaces a header.
func (c carrier) Set(key, value string) { nats.Header(c).Set(key, value) }

// Keys are the names of all headers.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}
