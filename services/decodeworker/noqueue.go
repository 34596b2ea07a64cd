package decodeworker

import (
	"context"
	"errors"

	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// errNoQueue is never met: a style without a queue puts nothing into it.
var errNoQueue = errors.New("this worker's hand-off style has no queue")

// noQueue stands in the place of the prefill queue where prefill workers are asked
// directly: no job waits, and those in work are this worker's own calls.
type noQueue struct{ inFlight func() int }

var _ Queue = noQueue{}

// Publish implements handoff.Queue.
func (noQueue) Publish(context.Context, *transferv1.RemotePrefillRequest, string) (uint64, error) {
	return 0, errNoQueue
}

// PublishFor implements handoff.Queue.
func (noQueue) PublishFor(context.Context, string, *transferv1.RemotePrefillRequest, string) (uint64, error) {
	return 0, errNoQueue
}

// Delete implements handoff.Queue.
func (noQueue) Delete(context.Context, uint64) error { return nil }

// Depth implements Queue.
func (q noQueue) Depth(context.Context) (prefillqueue.Depth, error) {
	return prefillqueue.Depth{Working: q.inFlight()}, nil
}
