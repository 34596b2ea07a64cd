package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-llm/switchyard/libs/kvevent"
	"github.com/switchyard-llm/switchyard/libs/kvevent/zmq"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// EventsConfig says how a worker tells which blocks it holds.
type EventsConfig struct {
	Publish   bool          `yaml:"publish" help:"publish over NATS which blocks this worker holds, so that prompts are sent where their prefix lies"`
	Changes   int           `yaml:"changes" help:"changes that are kept until they are published; when more come in between, the oldest are dropped and processors ask for a snapshot"`
	Interval  time.Duration `yaml:"interval" help:"how long changes are gathered before they are published"`
	Snapshots int           `yaml:"snapshots" help:"most snapshots of all blocks that are sent at once; further ones are refused and asked for again"`

	ZMQ zmq.ServerConfig `yaml:"zmq"`
}

// DefaultEventsConfig publishes.
func DefaultEventsConfig() EventsConfig {
	return EventsConfig{Publish: true, Changes: 1 << 15, Interval: 5 * time.Millisecond, Snapshots: 4, ZMQ: zmq.DefaultServerConfig()}
}

// changesMax bounds the log's memory to 1.3 GB.
const changesMax = 1 << 25

// Validate names the first field that cannot be, by its key within the events' section.
func (c EventsConfig) Validate() error {
	switch {
	case c.Changes < 1 || c.Changes > changesMax:
		return fmt.Errorf("changes is %d, want 1 to %d", c.Changes, changesMax)
	case c.Interval < 0:
		return fmt.Errorf("interval is %v, want at least 0", c.Interval)
	case c.Snapshots < 1:
		return fmt.Errorf("snapshots is %d, want at least 1", c.Snapshots)
	}
	return within("zmq", c.ZMQ.Validate())
}

// Events tells which blocks a worker holds. A nil one tells nothing.
type Events struct {
	cfg       EventsConfig
	worker    *Worker
	header    kvevent.Header
	snapshots *kvevent.Snapshots
	outputs   []kvevent.Output
	batches   *kvevent.Batches // nil: nothing goes over NATS
	zmq       *zmq.Server      // nil: nothing goes over ZeroMQ
}

func newEvents(cfg *EventsConfig, rank uint32, w *Worker) *Events {
	if cfg == nil {
		return nil
	}
	e := &Events{cfg: *cfg, worker: w, header: kvevent.Header{
		Source: kvevent.Source{Worker: w.id.Name, Incarnation: w.id.Incarnation, Rank: rank},
		Model:  w.card.Model, BlockTokens: w.card.Layout.BlockTokens,
	}}
	e.snapshots = kvevent.NewSnapshots(w.Pool, e.header, cfg.Snapshots)
	return e
}

// PublishOver adds NATS to where the events go, as those of a worker of the pool, unless the configuration
// forbids it. Run has not begun.
func (e *Events) PublishOver(nc *nats.Conn, pool kvevent.Pool) {
	if e == nil || !e.cfg.Publish {
		return
	}
	e.header.Pool = pool
	e.batches = kvevent.NewBatches(e.header, kvevent.OverNATS(nc, e.header))
	e.outputs = append(e.outputs, e.batches)
}

// Listen adds ZeroMQ to where the events go, if the configuration names an endpoint. Run has not
// begun; without it, Close closes what this has opened.
func (e *Events) Listen(ctx context.Context, log *slog.Logger) (err error) {
	if e == nil || e.cfg.ZMQ.Endpoint == "" {
		return nil
	}
	if e.zmq, err = zmq.Listen(ctx, e.cfg.ZMQ, e.header, e.worker.Pool, log); err != nil {
		return fmt.Errorf("events.zmq.%w", err)
	}
	e.outputs = append(e.outputs, e.zmq)
	return nil
}

// run adds the goroutines that publish, where anything is published.
func (e *Events) run(g *run.Group) {
	if e == nil || len(e.outputs) == 0 {
		return
	}
	g.Go("kv events", kvevent.NewPublisher(e.worker.Pool, e.cfg.Interval, e.outputs...).Run)
	if e.zmq != nil {
		g.Go("kv events by zeromq", e.zmq.Run)
	}
}

func (e *Events) close() error {
	if e == nil || e.zmq == nil {
		return nil
	}
	return e.zmq.Close()
}

// Published says whether processors can go by the events.
func (e *Events) Published() bool { return e != nil && e.batches != nil }

// Sequence is the number of the last event; 0 where none are published.
func (e *Events) Sequence() uint64 {
	if !e.Published() {
		return 0
	}
	return e.worker.Pool.Sequence()
}

// Snapshot answers whoever missed events, part by part. Errors are those of the contract.
func (e *Events) Snapshot(q *kveventv1.SnapshotQuery, send func(*kveventv1.SnapshotPart) error) error {
	if !e.Published() {
		return rpc.FailedPrecondition("events", "this worker publishes no events, see events.publish")
	}
	return e.snapshots.Serve(q, send)
}

// counts tells how many events were published over NATS, and how many were dropped.
func (e *Events) counts() map[string]uint64 {
	if !e.Published() {
		return nil
	}
	published, dropped := e.batches.Counts()
	return map[string]uint64{"published": published, "dropped": dropped}
}
