package e2e

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	noopmeter "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
	"github.com/switchyard-llm/switchyard/services/prefillworker"
)

// BenchmarkHandOff is a request of 20 prompt tokens and one output token at a decode
// worker, over an engine that computes nothing and whose blocks have a few bytes. A quantile of
// remote less local's median is what a hand-off costs beside the computation and the copy.
func BenchmarkHandOff(b *testing.B) {
	network := inproc.NewNetwork()
	l := newLine(b, func(c nixl.Config) equipment {
		c.KVFormat = "toy"
		agent, err := network.NewAgent(c)
		if err != nil {
			b.Fatal(err)
		}
		return equipment{executor: enginetest.NewToy(16, 4096), agent: agent, pool: worker.DefaultConfig()}
	})
	for _, tc := range []struct {
		name   string
		policy string
		want   generationv1.Placement
	}{
		{"local", disagg.Never, generationv1.Placement_PLACEMENT_LOCAL},
		{"remote", disagg.Always, generationv1.Placement_PLACEMENT_REMOTE},
	} {
		b.Run(tc.name, func(b *testing.B) {
			l.policy = disagg.Policy{Policy: tc.policy}
			l.generate(b, 20, tc.want) // connections are there
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				l.generate(b, 20, tc.want)
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			for name, share := range map[string]int{"p50-µs": 50, "p99-µs": 99} {
				b.ReportMetric(float64(took[(len(took)-1)*share/100].Nanoseconds())/1e3, name)
			}
		})
	}
}

// line is a decode and a prefill worker of one process, with real servers around them.
type line struct {
	equip     func(nixl.Config) equipment
	discovery *discovery.Client
	nats      *nats.Conn
	conns     *rpc.Conns
	client    decodeworkerv1.DecodeWorkerClient // of the latest decode worker
	prefills  []*prefillworker.PrefillWorker
	policy    disagg.Policy // changed while nothing runs
	requests  uint32
}

// equipment is what the workers of a line compute and move blocks with.
type equipment struct {
	executor engine.Executor
	agent    nixl.Agent
	pool     worker.Config
}

// newLine has one worker of each role.
func newLine(b *testing.B, equip func(nixl.Config) equipment) *line {
	l := newBareLine(b, equip)
	l.startPrefill(b, "prefill")
	l.startDecode(b, "decode")
	return l
}

// newBareLine has no workers yet.
func newBareLine(b *testing.B, equip func(nixl.Config) equipment) *line {
	ctx := b.Context()
	etcd, err := embedded.StartEtcd(ctx, embedded.EtcdConfig{})
	if err != nil {
		b.Fatal(err)
	}
	closing(b, etcd.Close)
	server, err := embedded.StartNATS(ctx, embedded.NATSConfig{})
	if err != nil {
		b.Fatal(err)
	}
	closing(b, server.Close)
	l := &line{equip: equip, conns: rpc.NewConns(rpc.DialOptions{})}
	closing(b, l.conns.Close)
	cfg := discovery.DefaultConfig()
	cfg.Endpoints = []string{etcd.Endpoint()}
	if l.discovery, err = discovery.Open(ctx, cfg, discard); err != nil {
		b.Fatal(err)
	}
	closing(b, l.discovery.Close)
	if l.nats, err = broker.Connect(ctx, server.URL(), "bench", discard); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.nats.Close)
	return l
}

func closing(b *testing.B, f func() error) {
	b.Cleanup(func() {
		if err := f(); err != nil {
			b.Error(err)
		}
	})
}

// background runs f until the benchmark ends.
func background(b *testing.B, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	closing(b, func() error { cancel(); return <-done })
}

// parts are what both services are built from.
type parts struct {
	worker   *worker.Worker
	instance *instancev1.Instance
	listener net.Listener
	server   *rpc.Server
	queue    *prefillqueue.Queue
	kept     *prefillqueue.Queue
	members  *discovery.Members // of the other side
}

func (l *line) parts(b *testing.B, name string, role, other instancev1.Role) parts {
	e := l.equip(nixl.Config{Name: name, Incarnation: discovery.NewIncarnation(time.Now())})
	p := parts{server: rpc.NewServer(rpc.ServerOptions{}), members: l.discovery.Members(other)}
	var err error
	if p.worker, err = worker.New(e.pool, worker.Deps{Executor: e.executor, Agent: e.agent, Logger: discard}); err != nil {
		b.Fatal(err)
	}
	closing(b, p.worker.Close)
	q := prefillqueue.DefaultConfig()
	q.KVFormat = e.executor.Card().KVFormat
	endpoint, err1 := p.worker.Endpoint(worker.InProc)
	q.PublishTimeout = queueTimeout
	queue, err2 := prefillqueue.Open(b.Context(), l.nats, q, discard)
	q.Worker = name
	kept, err4 := prefillqueue.Open(b.Context(), l.nats, q, discard)
	listener, err3 := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		b.Fatal(err)
	}
	p.queue, p.kept, p.listener = queue, kept, listener
	p.instance = &instancev1.Instance{
		Id: name, Incarnation: e.agent.ID().Incarnation, Role: role, Address: listener.Addr().String(), Started: timestamppb.Now(),
		Model: p.worker.ModelCard(), Transfer: []*instancev1.TransferEndpoint{endpoint},
	}
	background(b, p.members.Run)
	return p
}

func (l *line) startPrefill(b *testing.B, name string) *instancev1.Instance {
	p := l.parts(b, name, instancev1.Role_ROLE_PREFILL_WORKER, instancev1.Role_ROLE_DECODE_WORKER)
	cfg := prefillworker.DefaultConfig()
	cfg.Transport = worker.InProc
	s, err := prefillworker.New(cfg, prefillworker.Deps{
		Worker: p.worker, Instance: p.instance, Listener: p.listener, Server: p.server, Queue: p.queue, Kept: p.kept,
		DecodeWorkers: found{p.members}, Connect: l.conns.To, Logger: discard,
		Tracer: noop.NewTracerProvider(), Meter: noopmeter.NewMeterProvider(),
		Register: func(ctx context.Context, i *instancev1.Instance) (prefillworker.Registration, error) {
			return l.discovery.Register(ctx, i)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	background(b, s.Run)
	l.prefills = append(l.prefills, s)
	return p.instance
}

// found are the members as a prefill worker asks for them.
type found struct{ *discovery.Members }

func (f found) Find(id string) (*instancev1.Instance, bool) {
	s := f.Snapshot()
	m, _ := s.Find(id)
	return m.Instance, s.Revision > 0 && !s.Stale
}

// startDecode returns once the worker sees all prefill workers.
func (l *line) startDecode(b *testing.B, name string) *instancev1.Instance {
	p := l.parts(b, name, instancev1.Role_ROLE_DECODE_WORKER, instancev1.Role_ROLE_PREFILL_WORKER)
	cfg := decodeworker.DefaultConfig()
	cfg.Transport = worker.InProc
	s, err := decodeworker.New(cfg, decodeworker.Deps{
		Worker: p.worker, Instance: p.instance, Listener: p.listener, Server: p.server, Queue: p.queue,
		PrefillWorkers: func() []*instancev1.Instance { return p.members.Snapshot().Live("") },
		Policy:         func() disagg.Policy { return l.policy },
		Abort: func(ctx context.Context, address string, r *prefillworkerv1.AbortRequest) error {
			conn, err := l.conns.To(address)
			if err == nil {
				_, err = prefillworkerv1.NewPrefillWorkerClient(conn).Abort(ctx, r)
			}
			return err
		},
		Register: func(ctx context.Context, i *instancev1.Instance) (decodeworker.Registration, error) {
			return l.discovery.Register(ctx, i)
		},
		Logger: discard, Tracer: noop.NewTracerProvider(), Meter: noopmeter.NewMeterProvider(),
	})
	if err != nil {
		b.Fatal(err)
	}
	background(b, s.Run)
	for snapshot := range p.members.Watch(b.Context()) {
		if len(snapshot.Live("")) == len(l.prefills) {
			break
		}
	}
	conn, err := l.conns.To(p.listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	l.client = decodeworkerv1.NewDecodeWorkerClient(conn)
	return p.instance
}

// generate asks for one token after a prompt of n tokens that no cache holds.
func (l *line) generate(b *testing.B, n int, want generationv1.Placement) {
	l.requests++
	prompt := make([]uint32, n)
	prompt[0], prompt[1], prompt[2] = l.requests%251, l.requests/251%251, l.requests/251/251%251
	stream, err := l.client.Generate(b.Context(), &decodeworkerv1.GenerateRequest{Sequence: &generationv1.Sequence{
		Prompt: prompt, MaxTokens: 1, Sampling: &generationv1.Sampling{},
	}})
	for err == nil {
		var m *decodeworkerv1.GenerateResponse
		if m, err = stream.Recv(); m.GetEnded() != nil {
			if got := m.GetEnded().GetPlacement(); got != want {
				b.Fatalf("placed %v, want %v", got, want)
			}
			_, _ = stream.Recv() // the status, after which the next request begins
			return
		}
	}
	b.Fatal(err)
}
