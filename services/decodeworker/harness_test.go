package decodeworker

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
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

// memoryQueue is a prefill queue of this process.
type memoryQueue struct {
	arrived chan *transferv1.RemotePrefillRequest
	number  atomic.Uint64
	depth   atomic.Pointer[prefillqueue.Depth] // nil: it does not answer
}

func (q *memoryQueue) Publish(_ context.Context, r *transferv1.RemotePrefillRequest, _ string) (uint64, error) {
	q.arrived <- r
	return q.number.Add(1), nil
}

func (q *memoryQueue) PublishFor(ctx context.Context, _ string, r *transferv1.RemotePrefillRequest, id string) (uint64, error) {
	return q.Publish(ctx, r, id)
}

func (q *memoryQueue) Delete(context.Context, uint64) error { return nil }
func (q *memoryQueue) Depth(context.Context) (prefillqueue.Depth, error) {
	if d := q.depth.Load(); d != nil {
		return *d, nil
	}
	return prefillqueue.Depth{}, prefillqueue.ErrUnreachable
}

// entry is the worker's entry among the members.
type entry struct {
	changes chan *instancev1.Instance
	left    chan struct{}
	fail    chan error
}

func (e *entry) Run(ctx context.Context) error {
	defer close(e.left)
	select {
	case err := <-e.fail:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (e *entry) Update(_ context.Context, change func(*instancev1.Instance)) error {
	i := &instancev1.Instance{}
	change(i)
	e.changes <- i
	return nil
}

// harness is a decode worker over a toy engine, reached through a socket.
type harness struct {
	t      *testing.T
	d      *DecodeWorker
	toy    *enginetest.Toy
	worker *worker.Worker
	client decodeworkerv1.DecodeWorkerClient
	queue  *memoryQueue
	entry  *entry
	net    *inproc.Network
	abort  func(*prefillworkerv1.AbortRequest) error
	spans  *tracetest.InMemoryExporter
	meter  *sdkmetric.ManualReader

	died     atomic.Bool // prefill workers that are lost have died
	policy   atomic.Pointer[disagg.Policy]
	prefills atomic.Pointer[[]*instancev1.Instance]
	step     func(context.Context) error         // before each step; set it before start
	prefill  prefillworkerv1.PrefillWorkerClient // set it before start

	terminate context.CancelFunc
	ran       chan error
}

// newHarness makes one; start runs it.
func newHarness(t *testing.T, change func(*Config)) *harness {
	t.Helper()
	h := &harness{
		t: t, toy: enginetest.NewToy(blockTokens, 150), net: inproc.NewNetwork(), ran: make(chan error, 1),
		queue: &memoryQueue{arrived: make(chan *transferv1.RemotePrefillRequest, 16)},
		entry: &entry{changes: make(chan *instancev1.Instance, 4), left: make(chan struct{}), fail: make(chan error)},
		abort: func(*prefillworkerv1.AbortRequest) error { return nil },
		spans: tracetest.NewInMemoryExporter(), meter: sdkmetric.NewManualReader(),
	}
	h.policy.Store(&disagg.Policy{Policy: disagg.Never})
	h.queue.depth.Store(&prefillqueue.Depth{})
	h.prefills.Store(&[]*instancev1.Instance{{Id: "prefill", Incarnation: "1"}})
	h.toy.BeforeStep = func(ctx context.Context, _ *engine.Batch) error {
		if h.step != nil {
			return h.step(ctx)
		}
		return nil
	}
	agent, err := h.net.NewAgent(nixl.Config{Name: "decode", Incarnation: "1", KVFormat: "toy"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Pool.PoolTokens, cfg.Pool.Poison = 40*blockTokens, true
	if change != nil {
		change(&cfg)
	}
	log := slog.New(slog.DiscardHandler)
	if h.worker, err = worker.New(cfg.Pool, worker.Deps{Executor: h.toy, Agent: nixltest.Unproven{Agent: agent}, Events: &cfg.Events, Logger: log}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.d, err = New(cfg, Deps{
		Worker: h.worker, Instance: &instancev1.Instance{Id: "decode", Incarnation: "1"}, Listener: listener,
		Server: rpc.NewServer(rpc.ServerOptions{}), Queue: h.queue, Logger: log,
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(h.spans)), Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(h.meter)),
		PrefillWorkers: func() []*instancev1.Instance { return *h.prefills.Load() },
		PrefillWorker:  func(string) (prefillworkerv1.PrefillWorkerClient, error) { return h.prefill, nil },
		Policy:         func() disagg.Policy { return *h.policy.Load() },
		Abort:          func(_ context.Context, _ string, r *prefillworkerv1.AbortRequest) error { return h.abort(r) },
		Died:           func(context.Context, string) bool { return h.died.Load() },
		Register:       func(context.Context, *instancev1.Instance) (Registration, error) { return h.entry, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rpc.Dial(listener.Addr().String(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	h.client = decodeworkerv1.NewDecodeWorkerClient(conn)
	return h
}

// start runs the worker until the test ends or terminate is called.
func (h *harness) start() *harness {
	ctx, cancel := context.WithCancel(context.Background())
	h.terminate = cancel
	go func() { h.ran <- h.d.Run(ctx) }()
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
	err := take(h.t, "the end of Run", h.ran)
	if err != nil {
		h.t.Errorf("Run: %v", err)
	}
	h.ran <- nil // for whoever asks again
}

// checkIdle waits until all blocks are free or cached and no sequence is at anything.
func (h *harness) checkIdle() {
	h.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		c, r := h.worker.Pool.Counts(), h.worker.Scheduler.Report()
		if c.Now[block.Free]+c.Now[block.Sealed] == c.Capacity && c.Booked == 0 && r.Running+r.Waiting == 0 && h.atNothing() {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			h.t.Fatalf("not everything came back: %+v, %+v", c, r)
		}
	}
}

func (h *harness) atNothing() bool {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.d.phases == phases{}
}

var prompt = []sequence.Token{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}

func spec(maxTokens uint32) *generationv1.Sequence {
	return &generationv1.Sequence{
		RequestId: "r", Prompt: prompt, MaxTokens: maxTokens, Sampling: &generationv1.Sampling{Temperature: proto.Float32(0)},
	}
}

// stream is a processor's stream, with what came over it.
type stream struct {
	grpc.BidiStreamingClient[decodeworkerv1.AttachRequest, decodeworkerv1.AttachResponse]
	t     *testing.T
	loads chan *decodeworkerv1.Load
	ended chan *decodeworkerv1.Ended
	tried chan uint32
	err   chan error // how it ended

	mu     sync.Mutex
	tokens map[uint32][]sequence.Token
	probs  map[uint32][]sequence.LogProbs
	token  chan struct{} // capacity 1: some came
}

func (h *harness) attach(processor, incarnation string) *stream {
	h.t.Helper()
	client, err := h.client.Attach(within(h.t), grpc.WaitForReady(true))
	if err != nil {
		h.t.Fatal(err)
	}
	s := &stream{
		BidiStreamingClient: client, t: h.t, loads: make(chan *decodeworkerv1.Load, 1000), ended: make(chan *decodeworkerv1.Ended, 100),
		tried: make(chan uint32, 100),
		err:   make(chan error, 1), tokens: make(map[uint32][]sequence.Token), probs: make(map[uint32][]sequence.LogProbs), token: make(chan struct{}, 1),
	}
	s.send(&decodeworkerv1.AttachRequest{Message: &decodeworkerv1.AttachRequest_Hello{Hello: &decodeworkerv1.Hello{
		Processor: processor, ProcessorIncarnation: incarnation, WorkerIncarnation: "1",
	}}})
	var reading sync.WaitGroup
	reading.Go(s.read)
	h.t.Cleanup(reading.Wait) // the test's context has ended by then
	return s
}

func (s *stream) read() {
	for {
		m, err := s.Recv()
		if err != nil {
			s.err <- err
			return
		}
		if l := m.GetLoad(); l != nil {
			s.loads <- l
		}
		s.mu.Lock()
		for i, id := range m.GetBatch().GetSequenceIds() {
			s.tokens[id] = append(s.tokens[id], m.GetBatch().GetTokens()[i])
		}
		for _, p := range m.GetBatch().GetLogprobs() {
			id := m.GetBatch().GetSequenceIds()[p.GetEntry()]
			s.probs[id] = append(s.probs[id], *worker.FromLogProbs(p.GetLogprobs()))
		}
		s.mu.Unlock()
		if len(m.GetBatch().GetTokens()) > 0 {
			select {
			case s.token <- struct{}{}:
			default:
			}
		}
		for _, id := range m.GetBatch().GetTrials() {
			s.tried <- id
		}
		for _, e := range m.GetBatch().GetEnded() {
			s.ended <- e
		}
	}
}

func (s *stream) send(m *decodeworkerv1.AttachRequest) {
	s.t.Helper()
	if err := s.Send(m); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stream) submit(id uint32, booking uint64, q *generationv1.Sequence) {
	s.t.Helper()
	s.send(&decodeworkerv1.AttachRequest{Message: &decodeworkerv1.AttachRequest_Submit{Submit: &decodeworkerv1.Submit{
		SequenceId: id, Booking: booking, Sequence: q,
	}}})
}

func (s *stream) cancel(id uint32) {
	s.t.Helper()
	s.send(&decodeworkerv1.AttachRequest{Message: &decodeworkerv1.AttachRequest_Cancel{Cancel: &decodeworkerv1.Cancel{SequenceId: id}}})
}

func (s *stream) proceed(id uint32) {
	s.t.Helper()
	s.send(&decodeworkerv1.AttachRequest{Message: &decodeworkerv1.AttachRequest_Proceed{Proceed: &decodeworkerv1.Proceed{SequenceId: id}}})
}

// end waits for the next end.
func (s *stream) end() *decodeworkerv1.Ended {
	s.t.Helper()
	return take(s.t, "the end of a sequence", s.ended)
}

// check compares a sequence's tokens with what the toy says after its prompt.
func (s *stream) check(id uint32, n int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := enginetest.ToyAnswer(prompt, n); !slices.Equal(s.tokens[id], want) {
		s.t.Errorf("sequence %d: tokens %v, want %v", id, s.tokens[id], want)
	}
}

// booked waits until the load reports exactly these bookings.
func (s *stream) booked(want ...uint64) *decodeworkerv1.Load {
	s.t.Helper()
	for {
		l := take(s.t, "a load report", s.loads)
		var got []uint64
		for _, b := range l.GetBooked() {
			got = append(got, b.GetBooking())
		}
		if slices.Equal(got, want) {
			return l
		}
	}
}
