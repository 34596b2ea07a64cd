package prefillqueue

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/nats-io/nats.go"
)

// BenchmarkPublishPullAck is one job's way through the queue, of a prompt of 1,000 tokens.
func BenchmarkPublishPullAck(b *testing.B) {
	q := fresh(b, nil)
	sent := job("t")
	sent.Sequence.Prompt = make([]uint32, 1000)
	for i := range sent.Sequence.Prompt {
		sent.Sequence.Prompt[i] = uint32(i * 40)
	}
	b.SetBytes(int64(proto.Size(sent)))
	for b.Loop() {
		if _, err := q.Publish(b.Context(), sent, nats.NewInbox()); err != nil {
			b.Fatal(err)
		}
		jobs, err := q.Pull(b.Context(), 1)
		if err != nil {
			b.Fatal(err)
		}
		if err := jobs[0].Ack(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPublishDelete is a job that is withdrawn.
func BenchmarkPublishDelete(b *testing.B) {
	q := fresh(b, nil)
	sent := job("t")
	for b.Loop() {
		sequence, err := q.Publish(b.Context(), sent, nats.NewInbox())
		if err != nil {
			b.Fatal(err)
		}
		if err := q.Delete(b.Context(), sequence); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDepth asks NATS each time: with DepthAge it is asked at most ten times a second.
func BenchmarkDepth(b *testing.B) {
	q := fresh(b, nil)
	publish(b, q, job("t"))
	for b.Loop() {
		if _, err := q.Depth(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
