package probe

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/libs/nixl/multi"
	"github.com/switchyard-llm/switchyard/libs/nixl/tcp"
	"github.com/switchyard-llm/switchyard/libs/worker"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
	"github.com/switchyard-llm/switchyard/services/decodeworker/speed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire makes what an agent reads take its time.
type wire struct {
	nixl.Agent
	latency        atomic.Int64 // a time.Duration
	bytesPerSecond float64
}

func (w *wire) Create(r nixl.Request) (nixl.Transfer, error) {
	transfer, err := w.Agent.Create(r)
	bytes := 0
	for _, c := range r.Copies {
		bytes += c.Local.Bytes
	}
	return &slow{transfer, time.Duration(w.latency.Load()) + time.Duration(float64(bytes)/w.bytesPerSecond*1e9)}, err
}

type slow struct {
	nixl.Transfer
	takes time.Duration
}

func (s *slow) Wait(ctx context.Context) error {
	select {
	case <-time.After(s.takes):
		return s.Transfer.Wait(ctx)
	case <-ctx.Done():
		return &nixl.UnsettledError{Cause: ctx.Err()}
	}
}

// opened is a running worker, and its instance.
func opened(t *testing.T, agent nixl.Agent, transport string) (*worker.Worker, *instancev1.Instance) {
	t.Helper()
	w, err := worker.New(worker.DefaultConfig(), worker.Deps{
		Executor: enginetest.NewToy(16, 100), Agent: agent, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, w.Close()); err != nil {
			t.Error(err)
		}
	})
	endpoint, err := w.Endpoint(transport)
	if err != nil {
		t.Fatal(err)
	}
	return w, &instancev1.Instance{
		Id: w.ID().Name, Incarnation: w.ID().Incarnation, Address: w.ID().String(), Transfer: []*instancev1.TransferEndpoint{endpoint},
	}
}

func config(name, incarnation string) nixl.Config {
	return nixl.Config{Name: name, Incarnation: incarnation, KVFormat: "toy"}
}

// prefill plays a prefill worker's service.
type prefill struct {
	prefillworkerv1.PrefillWorkerClient
	worker *worker.Worker
	silent bool
	err    error

	mu    sync.Mutex
	asked []time.Time
	grant uint64
}

func (p *prefill) Probe(ctx context.Context, r *prefillworkerv1.ProbeRequest, _ ...grpc.CallOption) (*prefillworkerv1.ProbeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, time.Now())
	switch {
	case p.silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case p.err != nil:
		return nil, p.err
	case r.GetPrefillIncarnation() != p.worker.ID().Incarnation:
		return nil, status.Error(codes.FailedPrecondition, "another life")
	}
	p.grant++
	reader := nixl.PeerID{Name: r.GetDecodeWorker(), Incarnation: r.GetDecodeIncarnation()}
	err := p.worker.Agent.Allow(reader, nixl.Grant{Number: p.grant, Op: nixl.Read, Region: worker.ProbeRegion, Blocks: worker.ProbeBlocks()})
	return &prefillworkerv1.ProbeResponse{Grant: p.grant, Bytes: worker.ProbeBytes}, err
}

func (p *prefill) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// rig is a prober of one decode worker, with the prefill workers that a test lets join.
type rig struct {
	t       *testing.T
	net     *inproc.Network
	wire    *wire
	learner *speed.Learner
	prober  *Prober
	log     bytes.Buffer // of the prober's goroutine

	mu       sync.Mutex
	members  []*instancev1.Instance
	services map[string]*prefill // by address
}

func newRig(t *testing.T, latency time.Duration, bytesPerSecond float64) *rig {
	t.Helper()
	r := &rig{t: t, net: inproc.NewNetwork(), learner: speed.New(speed.DefaultStart(16, 128)), services: make(map[string]*prefill)}
	near, err := r.net.NewAgent(config("decode", "1"))
	if err != nil {
		t.Fatal(err)
	}
	r.wire = &wire{Agent: near, bytesPerSecond: bytesPerSecond}
	r.wire.latency.Store(int64(latency))
	w, _ := opened(t, r.wire, worker.InProc)
	r.start(w, slog.LevelInfo)
	return r
}

func (r *rig) start(w *worker.Worker, level slog.Level) {
	r.prober = New(Deps{
		Worker: w, Links: r.learner, Logger: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: level})),
		PrefillWorkers: func() []*instancev1.Instance {
			r.mu.Lock()
			defer r.mu.Unlock()
			return append([]*instancev1.Instance(nil), r.members...)
		},
		Client: func(address string) (prefillworkerv1.PrefillWorkerClient, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.services[address], nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.prober.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

func (r *rig) join(name, incarnation string, change func(*prefill)) *prefill {
	r.t.Helper()
	agent, err := r.net.NewAgent(config(name, incarnation))
	if err != nil {
		r.t.Fatal(err)
	}
	w, i := opened(r.t, agent, worker.InProc)
	return r.add(w, i, change)
}

func (r *rig) add(w *worker.Worker, i *instancev1.Instance, change func(*prefill)) *prefill {
	p := &prefill{worker: w}
	if change != nil {
		change(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.services[i.GetAddress()] = p
	r.members = append(r.members, i)
	return p
}

func (r *rig) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = nil
}

// link is that of the only prefill worker.
func (r *rig) link() speed.Link {
	r.t.Helper()
	links := r.learner.Links(time.Now())
	if len(links) != 1 {
		r.t.Fatalf("the links are %+v, want one", links)
	}
	return links[0]
}

// pass lets time go by in a bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func near(got, want float64) bool { return got > 0.98*want && got < 1.02*want }

func TestAProbeTellsTheLinkAndChangesTheDecision(t *testing.T) {
	for name, w := range map[string]link.Estimate{
		"slow":  {BytesPerSecond: 1e6, Latency: 20 * time.Millisecond},
		"far":   {BytesPerSecond: 20e6, Latency: 80 * time.Millisecond},
		"quick": {BytesPerSecond: 10e9, Latency: 20 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, w.Latency, w.BytesPerSecond)
				decide := func() disagg.Decision {
					p := disagg.DefaultPolicy(16)
					f := disagg.Facts{
						PromptTokens: 400, OfferedTokens: 2048, RowBytes: 46080, PrefillWorkers: 1, Queue: disagg.Queue{Known: true}, StepTokens: 128,
						Speeds: r.learner.Speeds(time.Now()),
					}
					return disagg.Decide(&p, &f)
				}
				if d := decide(); !d.Remote {
					t.Errorf("at first %+v", d)
				}
				r.join("prefill", "1", nil)
				pass(lookEvery + probeWithin)
				// The wire's copies take no time in the bubble; a tiny read moves 4 KiB.
				got, latency := r.link(), w.Latency+time.Duration(tinyBytes/w.BytesPerSecond*1e9)
				if got.MeasuredBy != speed.ByProbe || !near(got.Latency.Seconds(), latency.Seconds()) || got.BytesPerSecond < 0.97*w.BytesPerSecond || got.BytesPerSecond > 1.1*w.BytesPerSecond {
					t.Errorf("the link is %+v, want %v and %v bytes per second", got, latency, w.BytesPerSecond)
				}
				s := r.learner.Speeds(time.Now())
				if !near(s.LinkBytesPerSecond, got.BytesPerSecond) || !near(s.LinkLatency.Seconds(), got.Latency.Seconds()) {
					t.Errorf("a decision goes by %v and %v", s.LinkLatency, s.LinkBytesPerSecond)
				}
				if d := decide(); d.Remote != (name == "quick") {
					t.Errorf("after the probe %+v", d)
				}
				if r.log.Len() > 0 {
					t.Errorf("logged %s", &r.log)
				}
			})
		})
	}
}

func TestALinkIsMeasuredOncePerLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Millisecond, 1e9)
		first := r.join("prefill", "1", nil)
		pass(time.Minute)
		if n := first.times(); n != 1 {
			t.Errorf("was probed %d times", n)
		}
		r.wire.latency.Store(int64(3 * time.Millisecond)) // nothing is read now
		r.leave()
		pass(2 * lookEvery)
		if links := r.learner.Links(time.Now()); len(links) != 0 {
			t.Errorf("it has left, and its link is %+v", links)
		}
		second := r.join("prefill", "2", nil)
		pass(time.Minute)
		if n, got := second.times(), r.link(); n != 1 || got.Latency < 3*time.Millisecond {
			t.Errorf("the next life was probed %d times: %+v", n, got)
		}
		// Without a look in between.
		r.leave()
		r.wire.latency.Store(int64(9 * time.Millisecond))
		third := r.join("prefill", "3", nil)
		pass(time.Minute)
		if n, got := third.times(), r.link(); n != 1 || got.Latency < 9*time.Millisecond {
			t.Errorf("a life after the next was probed %d times: %+v", n, got)
		}
	})
}

func TestAPeerThatDoesNotAnswerCostsNothing(t *testing.T) {
	for name, change := range map[string]func(*prefill){
		"silent":  func(p *prefill) { p.silent = true },
		"refuses": func(p *prefill) { p.err = status.Error(codes.Unimplemented, "no such call") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, time.Millisecond, 1e9)
				before := r.learner.Speeds(time.Now())
				bad := r.join("bad", "1", change)
				pass(time.Hour)
				if got := r.link(); got.MeasuredBy != speed.ByStart {
					t.Errorf("its link is %+v", got)
				}
				if got := r.learner.Speeds(time.Now()); got.LinkBytesPerSecond < before.LinkBytesPerSecond {
					t.Errorf("the bandwidth is %v", got.LinkBytesPerSecond)
				}
				if n := strings.Count(r.log.String(), "\n"); n != 1 || !strings.Contains(r.log.String(), "level=INFO") {
					t.Errorf("logged %d lines:\n%s", n, &r.log)
				}
				for i, at := range bad.asked[1:] {
					if pause := at.Sub(bad.asked[i]); pause < min(retryAtLeast<<i, retryAtMost) || pause > retryAtMost+probeWithin+2*lookEvery {
						t.Errorf("asked again after %v", pause)
					}
				}
				if n := len(bad.asked); n < 10 || n > 25 {
					t.Errorf("asked %d times in an hour", n)
				}
				good, joined := r.join("good", "1", nil), time.Now()
				pass(2*probeWithin + 2*lookEvery)
				if len(good.asked) != 1 || good.asked[0].Sub(joined) > probeWithin+2*lookEvery {
					t.Errorf("another one was asked at %v, joined at %v", good.asked, joined)
				}
			})
		})
	}
}

// What was read in part, or in vain, says nothing.
func TestAReadThatDoesNotEndIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1e9)
		r.wire.latency.Store(int64(time.Hour))
		p := r.join("prefill", "1", nil)
		pass(time.Minute)
		if got := r.link(); got.MeasuredBy != speed.ByStart {
			t.Errorf("its link is %+v", got)
		}
		if n := p.times(); n > 7 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

// Over sockets, with a bandwidth that nobody knows.
func TestALinkOfTCPIsMeasured(t *testing.T) {
	open := func(name string) (*worker.Worker, *instancev1.Instance) {
		a, err := tcp.New(tcp.Config{Config: config(name, "1"), Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		agent, err := multi.New(multi.Transport{Name: worker.TCP, Agent: a})
		if err != nil {
			t.Fatal(err)
		}
		return opened(t, agent, worker.TCP)
	}
	r := &rig{t: t, learner: speed.New(speed.DefaultStart(16, 128)), services: make(map[string]*prefill)}
	decode, _ := open("decode")
	far, instance := open("prefill")
	r.add(far, instance, nil)
	r.start(decode, slog.LevelInfo)
	ticks, end := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
	defer ticks.Stop()
	for {
		links := r.learner.Links(time.Now())
		if len(links) == 1 && links[0].MeasuredBy == speed.ByProbe {
			if l := links[0]; l.Class != link.SameHost || l.BytesPerSecond < 1e6 || l.Latency <= 0 || l.Latency > time.Second {
				t.Errorf("the link is %+v", l)
			}
			t.Logf("%.2f GB/s, %v", links[0].BytesPerSecond/1e9, links[0].Latency)
			return
		}
		select {
		case <-ticks.C:
		case <-end:
			t.Fatalf("not measured: %+v", links)
		}
	}
}
