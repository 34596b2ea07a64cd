package decodeworker

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/kvevent"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// holdings is a kvevent.Sink that keeps what is held, of one worker.
type holdings struct {
	mu   sync.Mutex
	held map[block.Hash]bool
}

func (h *holdings) Stored(_ kvevent.Source, _ block.Tier, _ block.Hash, chain []block.Hash) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range chain {
		h.held[b] = true
	}
}

func (h *holdings) Removed(_ kvevent.Source, _ block.Tier, hashes []block.Hash) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range hashes {
		delete(h.held, b)
	}
}

func (h *holdings) Reset(kvevent.Source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.held)
}

func (h *holdings) Gone(s kvevent.Source) { h.Reset(s) }

func (h *holdings) equal(blocks []block.Change) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range blocks {
		if !h.held[b.Hash] {
			return false
		}
	}
	return len(h.held) == len(blocks)
}

// follow follows the worker, whose events are published, as a processor does.
func (h *harness) follow(sink kvevent.Sink) *kvevent.Follower {
	h.t.Helper()
	server, err := embedded.StartNATS(within(h.t), embedded.NATSConfig{})
	if err != nil {
		h.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	nc, err := broker.Connect(within(h.t), server.URL(), "test", log)
	if err != nil {
		h.t.Fatal(err)
	}
	card := h.worker.Card()
	f, err := kvevent.NewFollower(kvevent.DefaultFollowerConfig(kvevent.Decode, card.Model, card.Layout.BlockTokens), kvevent.Deps{
		NATS: nc, Sink: sink, Logger: log,
		Snapshot: func(ctx context.Context, s kvevent.Source) (kvevent.Parts, error) {
			stream, err := h.client.Snapshot(ctx, &decodeworkerv1.SnapshotRequest{Query: &kveventv1.SnapshotQuery{Incarnation: s.Incarnation}})
			if err != nil {
				return nil, err
			}
			return kvevent.PartsOf(stream), nil
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.worker.Events.PublishOver(nc, kvevent.Decode)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
		nc.Close()
		if err := server.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return f
}

func (h *harness) generate(first, maxTokens uint32) {
	h.t.Helper()
	q := spec(maxTokens)
	q.Prompt = append([]uint32{first}, prompt...)
	client, err := h.client.Generate(within(h.t), &decodeworkerv1.GenerateRequest{Sequence: q})
	if err != nil {
		h.t.Fatal(err)
	}
	for {
		m, err := client.Recv()
		if err != nil {
			h.t.Fatal(err)
		}
		if m.GetEnded() != nil {
			return
		}
	}
}

func TestWhoFollowsKnowsWhatTheWorkerHolds(t *testing.T) {
	h := newHarness(t, nil)
	sink := &holdings{held: map[block.Hash]bool{}}
	f := h.follow(sink)
	h.start()
	s := h.attach("p", "1")
	if l := take(t, "a load report", s.loads); l.GetKvSequence() != 0 {
		t.Errorf("the first report tells event %d, want none", l.GetKvSequence())
	}
	for i := range uint32(12) { // more than the pool holds: blocks are evicted
		h.generate(i, 30)
	}
	h.checkIdle()
	want := h.worker.Pool.Sequence()
	for take(t, "a load report with the last event", s.loads).GetKvSequence() != want {
	}
	f.Reported(kvevent.Source{Worker: "decode", Incarnation: "1"}, want)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !sink.equal(h.worker.Pool.Snapshot().Blocks) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it knows %v, the pool holds %v", sink.held, h.worker.Pool.Snapshot().Blocks)
		}
	}
	if h.worker.Pool.Stats().Evictions == 0 {
		t.Error("no block was evicted, so nothing was shown of that")
	}
}

func TestASnapshotOfAnotherLifeOrOfAWorkerWithoutEventsIsRefused(t *testing.T) {
	for name, publishes := range map[string]bool{"another life": true, "no events": false} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(c *Config) { c.Events.Publish = publishes })
			h.follow(&holdings{held: map[block.Hash]bool{}})
			h.start()
			query := &kveventv1.SnapshotQuery{Incarnation: "1"}
			if publishes {
				query.Incarnation = "0"
			}
			stream, err := h.client.Snapshot(within(t), &decodeworkerv1.SnapshotRequest{Query: query})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); rpc.Code(err) != codes.FailedPrecondition {
				t.Errorf("%v, want a failed precondition", err)
			}
		})
	}
}
