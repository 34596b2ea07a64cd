package prefillqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/proto"

	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// Job is a delivery of a prefill job. It ends with Ack, Nak or Term, of which the first
// counts; one that ends with none is delivered again after AckWait of silence.
type Job struct {
	// Request is what to do; its sequence may be missing, see Queue.Publish.
	Request *transferv1.RemotePrefillRequest
	// Sequence is the job's number in the stream.
	Sequence uint64
	// Delivered counts the deliveries of the job, this one included.
	Delivered uint64
	// Published is when the job entered the queue, by the clock of NATS.
	Published time.Time

	msg     jetstream.Msg
	ackWait time.Duration
}

func newJob(msg jetstream.Msg, ackWait time.Duration) (*Job, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	request := new(transferv1.RemotePrefillRequest)
	if err := proto.Unmarshal(msg.Data(), request); err != nil {
		return nil, fmt.Errorf("decode job: %w", err)
	}
	if request.GetTransferId() == "" {
		return nil, errors.New("decode job: transfer_id: want one")
	}
	return &Job{
		Request:   request,
		Sequence:  meta.Sequence.Stream,
		Delivered: meta.NumDelivered,
		Published: meta.Timestamp,
		msg:       msg,
		ackWait:   ackWait,
	}, nil
}

// Context is ctx with the span that published the job as its remote parent.
func (j *Job) Context(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, carrier(j.msg.Headers()))
}

// Hold keeps the job from being delivered again: it says every AckWait/4 that the work
// goes on, until ctx or the job ends. It blocks; run it beside the work.
func (j *Job) Hold(ctx context.Context) error {
	beat := time.NewTicker(j.ackWait / 4)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
		// Without a connection the job may be delivered again, which is allowed for.
		if err := j.InProgress(); errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			return nil
		}
	}
}

// InProgress says once that the work goes on: AckWait begins anew.
func (j *Job) InProgress() error { return j.tell("say that work goes on", j.msg.InProgress()) }

// Ack ends the job: the decode worker has what it wanted, or wants it no more.
func (j *Job) Ack() error { return j.tell("acknowledge", j.msg.Ack()) }

// Nak gives the job back, to be delivered again after delay.
func (j *Job) Nak(delay time.Duration) error { return j.tell("give back", j.msg.NakWithDelay(delay)) }

// Term ends a job that nobody can do; the reason appears in NATS's advisories.
func (j *Job) Term(reason string) error { return j.tell("terminate", j.msg.TermWithReason(reason)) }

func (j *Job) tell(what string, err error) error {
	if err == nil {
		return nil
	}
	if disconnected(err) {
		err = ErrUnreachable
	}
	return fmt.Errorf("%s job %s: %w", what, j.Request.GetTransferId(), err)
}
