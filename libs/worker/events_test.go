package worker

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/kvevent"
	"github.com/switchyard-llm/switchyard/libs/kvevent/zmq"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// heard is a kvevent.Sink that keeps what was stored.
type heard struct {
	mu     sync.Mutex
	hashes map[block.Hash]bool
}

func (h *heard) Stored(_ kvevent.Source, _ block.Tier, _ block.Hash, chain []block.Hash) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range chain {
		h.hashes[b] = true
	}
}

func (h *heard) Removed(kvevent.Source, block.Tier, []block.Hash) {}
func (h *heard) Reset(kvevent.Source)                             {}
func (h *heard) Gone(kvevent.Source)                              {}

func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.hashes)
}

func newEventsWorker(t *testing.T, cfg *EventsConfig) *Worker {
	t.Helper()
	agent, err := inproc.NewNetwork().NewAgent(nixl.Config{Name: "w", Incarnation: "1", KVFormat: "toy"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(DefaultConfig(), Deps{Executor: enginetest.NewToy(4, 150), Agent: agent, Events: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestAWorkerTellsItsBlocksInVLLMsFormWhereAsked(t *testing.T) {
	cfg := DefaultEventsConfig()
	cfg.Publish, cfg.ZMQ.Endpoint, cfg.ZMQ.Replay = false, "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"
	w := newEventsWorker(t, &cfg)
	log := slog.New(slog.DiscardHandler)
	if err := w.Events.Listen(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	publish, replay := w.Events.zmq.Endpoints()
	sink := &heard{hashes: map[block.Hash]bool{}}
	s, err := zmq.NewSubscriber(zmq.SubscriberConfig{
		Endpoint: "tcp://" + publish, Replay: "tcp://" + replay, Ranks: 1, Model: w.Card().Model, BlockTokens: 4, Blocks: 100,
	}, kvevent.Source{Worker: "w", Incarnation: "1"}, sink, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for _, run := range []func(context.Context) error{w.Run, s.Run} {
		all.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	tick, deadline := time.NewTicker(2*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for i := sequence.Token(0); sink.count() < 2; i++ { // what is told before it listens is replayed with the next
		store(t, w, i)
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it heard of %d blocks: %+v", sink.count(), s.Counts())
		}
	}
	if n := w.Events.Sequence(); n != 0 {
		t.Errorf("reports tell event %d, but nobody is told it over NATS", n)
	}
}

// store makes the worker hold the two blocks of a prompt.
func store(t *testing.T, w *Worker, first sequence.Token) {
	t.Helper()
	o := w.Options("")
	tokens := []sequence.Token{first, 2, 3, 4, 5, 6, 7, 8, 9}
	table, err := w.Pool.Admit(block.Prompt{Tokens: tokens, Namespace: o.Namespace, Root: o.Root}, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	if err := table.Extend(len(tokens)); err != nil {
		t.Fatal(err)
	}
	if err := table.Advance(tokens[table.Len():]); err != nil {
		t.Fatal(err)
	}
}

func TestAWorkerWithoutEventsKeepsNoneAndRefusesASnapshot(t *testing.T) {
	w := newEventsWorker(t, nil)
	store(t, w, 1)
	if err := w.Events.Listen(t.Context(), nil); err != nil {
		t.Error(err)
	}
	w.Events.PublishOver(nil, kvevent.Decode)
	if changes, _, _ := w.Pool.Changes(nil); len(changes) != 0 || w.Events.Sequence() != 0 {
		t.Errorf("%d changes, the last is %d; want none", len(changes), w.Events.Sequence())
	}
	err := w.Events.Snapshot(&kveventv1.SnapshotQuery{Incarnation: "1"}, nil)
	if err == nil || !strings.Contains(err.Error(), "events.publish") {
		t.Errorf("%v, want it to name the key", err)
	}
}

func TestAnEndpointThatIsTakenIsNamed(t *testing.T) {
	cfg := DefaultEventsConfig()
	cfg.ZMQ.Endpoint = "tcp://127.0.0.1:0"
	first := newEventsWorker(t, &cfg)
	if err := first.Events.Listen(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	taken, _ := first.Events.zmq.Endpoints()
	for key, change := range map[string]func(*EventsConfig){
		"events.zmq.endpoint":        func(c *EventsConfig) { c.ZMQ.Endpoint = "tcp://" + taken },
		"events.zmq.replay_endpoint": func(c *EventsConfig) { c.ZMQ.Replay = "tcp://" + taken },
	} {
		other := cfg
		change(&other)
		if err := newEventsWorker(t, &other).Events.Listen(t.Context(), nil); err == nil || !strings.Contains(err.Error(), key+" is") {
			t.Errorf("%v, want it to name %s", err, key)
		}
	}
}
