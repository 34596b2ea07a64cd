package prefillworker

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	noopmeter "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	blockTokens = 4
	patience    = 20 * time.Second
)

// within bounds every wait of a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// take receives from a channel.
func take[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
	return v
}

// listed are the decode workers that etcd is made to name.
type listed struct {
	atomic.Pointer[instancev1.Instance]
}

func (m *listed) Find(string) (*instancev1.Instance, bool) { return m.Load(), true }

// entry is the worker's entry among the members.
type entry struct{}

func (entry) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// agent lets a test stand in the way of the transport.
type agent struct {
	nixl.Agent
	addPeer func() error
	posted  func(nixl.Op, nixl.Transfer) nixl.Transfer
}

func (a *agent) AddPeer(ctx context.Context, metadata []byte) (nixl.PeerID, error) {
	if a.addPeer != nil {
		if err := a.addPeer(); err != nil {
			return nixl.PeerID{}, err
		}
	}
	return a.Agent.AddPeer(ctx, metadata)
}

func (a *agent) Create(r nixl.Request) (nixl.Transfer, error) {
	transfer, err := a.Agent.Create(r)
	if err == nil && a.posted != nil {
		transfer = a.posted(r.Op, transfer)
	}
	return transfer, err
}

// harness is a prefill worker over a toy engine and a real queue, with a decode worker
// that a test plays.
type harness struct {
	t       *testing.T
	p       *PrefillWorker
	toy     *enginetest.Toy
	worker  *worker.Worker
	agent   *agent
	queue   *prefillqueue.Queue
	kept    *prefillqueue.Queue // of this worker alone
	conn    *nats.Conn          // of both
	decode  *decode
	members *listed
	step    func(context.Context) error // before each step; set it before start

	terminate context.CancelFunc
	ran       chan error
	jobs      int
}

func newHarness(t *testing.T, change func(*Config)) *harness {
	t.Helper()
	h := &harness{t: t, members: &listed{}, ran: make(chan error, 1)}
	network := inproc.NewNetwork()
	h.decode = newDecode(t, network)
	h.members.Store(h.decode.instance)
	h.queue, h.kept, h.conn = newQueues(t)
	own, err := network.NewAgent(nixl.Config{Name: "prefill", Incarnation: "1", KVFormat: "toy"})
	if err != nil {
		t.Fatal(err)
	}
	h.agent = &agent{Agent: own}
	h.toy = enginetest.NewToy(blockTokens, 150)
	h.toy.BeforeStep = func(ctx context.Context, _ *engine.Batch) error {
		if h.step != nil {
			return h.step(ctx)
		}
		return nil
	}
	cfg := DefaultConfig()
	cfg.Transport, cfg.Pool.PoolTokens = worker.InProc, 40*blockTokens
	if change != nil {
		change(&cfg)
	}
	log := slog.New(slog.DiscardHandler)
	if h.worker, err = worker.New(cfg.Pool, worker.Deps{Executor: h.toy, Agent: h.agent, Events: &cfg.Events, Logger: log}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := rpc.NewConns(rpc.DialOptions{})
	t.Cleanup(func() {
		if err := conns.Close(); err != nil {
			t.Error(err)
		}
	})
	h.p, err = New(cfg, Deps{
		Worker: h.worker, Instance: &instancev1.Instance{Id: "prefill", Incarnation: "1", Address: listener.Addr().String()},
		Listener: listener, Server: rpc.NewServer(rpc.ServerOptions{}), Queue: h.queue, Kept: h.kept, DecodeWorkers: h.members,
		Connect: conns.To, Logger: log, Tracer: noop.NewTracerProvider(), Meter: noopmeter.NewMeterProvider(),
		Register: func(context.Context, *instancev1.Instance) (Registration, error) { return entry{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// newQueues makes the queue of all prefill workers, and that of this one.
func newQueues(t *testing.T) (queue, kept *prefillqueue.Queue, conn *nats.Conn) {
	t.Helper()
	server, err := embedded.StartNATS(within(t), embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	log := slog.New(slog.DiscardHandler)
	conn, err = broker.Connect(within(t), server.URL(), "test", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	cfg := prefillqueue.DefaultConfig()
	cfg.KVFormat, cfg.DepthAge, cfg.PublishTimeout = "toy", 0, patience
	if queue, err = prefillqueue.Open(within(t), conn, cfg, log); err != nil {
		t.Fatal(err)
	}
	cfg.Worker = "prefill"
	if kept, err = prefillqueue.Open(within(t), conn, cfg, log); err != nil {
		t.Fatal(err)
	}
	return queue, kept, conn
}

// start runs the worker until the test ends or terminate is called.
func (h *harness) start() *harness {
	ctx, cancel := context.WithCancel(context.Background())
	h.terminate = cancel
	go func() { h.ran <- h.p.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		h.stopped()
		if err := h.worker.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return h
}

// stopped waits until Run has returned.
func (h *harness) stopped() {
	h.t.Helper()
	if err := take(h.t, "the end of Run", h.ran); err != nil {
		h.t.Errorf("Run: %v", err)
	}
	h.ran <- nil // for whoever asks again
}

// client reaches the worker's own server.
func (h *harness) client() prefillworkerv1.PrefillWorkerClient {
	h.t.Helper()
	conn, err := rpc.Dial(h.p.deps.Instance.GetAddress(), rpc.DialOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return prefillworkerv1.NewPrefillWorkerClient(conn)
}

var prompt = []sequence.Token{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}

func spec() *generationv1.Sequence {
	return &generationv1.Sequence{
		RequestId: "r", Prompt: prompt, MaxTokens: 6, Sampling: &generationv1.Sampling{Temperature: proto.Float32(0)},
	}
}

// publish queues a job for q's prompt.
func (h *harness) publish(change func(*transferv1.RemotePrefillRequest)) *transferv1.RemotePrefillRequest {
	h.t.Helper()
	job := h.job(change)
	if _, err := h.queue.Publish(within(h.t), job, ""); err != nil {
		h.t.Fatal(err)
	}
	return job
}

// keep queues one for this worker alone.
func (h *harness) keep() *transferv1.RemotePrefillRequest {
	h.t.Helper()
	job := h.job(nil)
	if _, err := h.queue.PublishFor(within(h.t), "prefill", job, ""); err != nil {
		h.t.Fatal(err)
	}
	return job
}

func (h *harness) job(change func(*transferv1.RemotePrefillRequest)) *transferv1.RemotePrefillRequest {
	h.jobs++
	job := &transferv1.RemotePrefillRequest{
		TransferId: "t" + string(rune('0'+h.jobs)), DecodeWorker: "decode", DecodeIncarnation: "1", Sequence: spec(),
		Deadline: timestamppb.New(time.Now().Add(time.Minute)),
	}
	if change != nil {
		change(job)
	}
	return job
}

// acknowledged waits until no job is in the queue any more.
func (h *harness) acknowledged() {
	h.t.Helper()
	ctx := within(h.t)
	for {
		d, err := h.queue.Depth(ctx)
		if err != nil {
			h.t.Fatalf("the queue has %+v: %v", d, err)
		}
		if d.Waiting+d.Working == 0 {
			return
		}
	}
}

// report waits until the counters of jobs are as wanted.
func (h *harness) report(what string, ok func(*prefillworkerv1.JobReport) bool) {
	h.t.Helper()
	h.eventually(what, func() bool { return ok(h.p.jobReport()) }, func() any { return h.p.jobReport() })
}

// checkIdle waits until all blocks are free or cached and no attempt is known.
func (h *harness) checkIdle() {
	h.t.Helper()
	h.eventually("everything is back", func() bool {
		h.p.mu.Lock()
		known := len(h.p.attempts) + len(h.p.tickets)
		h.p.mu.Unlock()
		h.p.calls.mu.Lock()
		known += h.p.calls.active + h.p.calls.busy + h.p.calls.blocks
		h.p.calls.mu.Unlock()
		c, r := h.worker.Pool.Counts(), h.worker.Scheduler.Report()
		return known == 0 && c.Now[block.Free]+c.Now[block.Sealed] == c.Capacity && c.Booked == 0 && r.Running == 0
	}, func() any { return h.worker.Pool.Counts() })
}

func (h *harness) eventually(what string, ok func() bool, state func() any) {
	h.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			h.t.Fatalf("%s: not within %v: %+v", what, patience, state())
		}
	}
}

// checkWritten holds what lies in the decode worker's blocks against the whole prompt.
func (h *harness) checkWritten(tokens []sequence.Token, first sequence.Token) {
	h.t.Helper()
	if want := enginetest.ToyAnswer(tokens, 1)[0]; first != want {
		h.t.Errorf("the first token is %d, want %d", first, want)
	}
	if got := h.decode.answer(tokens); !slices.Equal(got, enginetest.ToyAnswer(tokens, 2)[1:]) {
		h.t.Errorf("what was written leads to %v, want %v", got, enginetest.ToyAnswer(tokens, 2)[1:])
	}
}
