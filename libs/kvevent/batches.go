package kvevent

import (
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/broker"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// batchEvents keeps a batch far below what NATS takes in one message: 25 bytes an event at most.
const batchEvents = 1 << 13

// Header is what all batches of a source say of themselves.
type Header struct {
	Pool        Pool
	Source      Source
	Model       string
	BlockTokens int
}

// Batches is the Output in this system's own form.
type Batches struct {
	batch kveventv1.Batch
	send  func(*kveventv1.Batch) error

	published, dropped atomic.Uint64
}

var _ Output = (*Batches)(nil)

// NewBatches returns an output that gives each batch to send, which must not keep it. Events of
// a batch that cannot be sent are dropped: whoever follows finds the gap.
func NewBatches(h Header, send func(*kveventv1.Batch) error) *Batches {
	return &Batches{send: send, batch: kveventv1.Batch{
		Worker: h.Source.Worker, Incarnation: h.Source.Incarnation, DpRank: h.Source.Rank,
		Model: h.Model, BlockTokens: uint32(h.BlockTokens), Runs: &kveventv1.Runs{},
	}}
}

// Publish implements Output.
func (b *Batches) Publish(first, lost uint64, changes []block.Change) {
	b.dropped.Add(lost)
	for len(changes) > 0 {
		part := changes[:min(len(changes), batchEvents)]
		changes = changes[len(part):]
		clearRuns(b.batch.Runs)
		encode(b.batch.Runs, part)
		b.batch.FirstSequence = first
		first += uint64(len(part))
		if b.send(&b.batch) != nil { // NATS is away, which its connection has logged
			b.dropped.Add(uint64(len(part)))
			continue
		}
		b.published.Add(uint64(len(part)))
	}
}

// Counts tells how many events were published, and how many were dropped: before they came here,
// because the log was full, or because nobody took them.
func (b *Batches) Counts() (published, dropped uint64) { return b.published.Load(), b.dropped.Load() }

// OverNATS returns a send that publishes on the subject of the model and the source. What NATS
// cannot take at once is an error: nothing is kept for it.
func OverNATS(nc *nats.Conn, h Header) func(*kveventv1.Batch) error {
	subject := subject(h)
	var buffer []byte
	return func(b *kveventv1.Batch) (err error) {
		if buffer, err = (proto.MarshalOptions{}).MarshalAppend(buffer[:0], b); err != nil {
			return err
		}
		return nc.Publish(subject, buffer) // copies
	}
}

// subjects are those of all workers of a model's pool.
func subjects(pool Pool, model string) string {
	return "switchyard.kv." + string(pool) + "." + broker.Token(model) + ".>"
}

func subject(h Header) string {
	return "switchyard.kv." + string(h.Pool) + "." + broker.Token(h.Model) + "." + broker.Token(h.Source.Worker) + "." +
		strconv.FormatUint(uint64(h.Source.Rank), 10)
}
