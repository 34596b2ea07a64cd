package prefillqueue

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within bounds every wait of these tests.
func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 15*time.Second)
	tb.Cleanup(cancel)
	return ctx
}

func startNATS(tb testing.TB, address string) *embedded.NATS {
	tb.Helper()
	n, err := embedded.StartNATS(within(tb), embedded.NATSConfig{Address: address})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := n.Close(); err != nil {
			tb.Error(err)
		}
	})
	return n
}

func connect(tb testing.TB, url string) *nats.Conn {
	tb.Helper()
	nc, err := broker.Connect(within(tb), url, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

func open(tb testing.TB, nc *nats.Conn, change func(*Config)) *Queue {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.KVFormat, cfg.DepthAge = "format.1", 0
	// The machine of a test may be slow; what depends on time sets its own.
	cfg.PublishTimeout = 5 * time.Second
	if change != nil {
		change(&cfg)
	}
	q, err := Open(within(tb), nc, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

func fresh(tb testing.TB, change func(*Config)) *Queue {
	tb.Helper()
	return open(tb, connect(tb, startNATS(tb, "").URL()), change)
}

func job(id string) *transferv1.RemotePrefillRequest {
	return &transferv1.RemotePrefillRequest{
		TransferId: id, DecodeWorker: "decode-0", PromptTokens: 3,
		Sequence: &generationv1.Sequence{RequestId: "r-" + id, Prompt: []uint32{1, 2, 3}},
		Deadline: timestamppb.New(time.Now().Add(time.Minute)),
	}
}

func publish(tb testing.TB, q *Queue, j *transferv1.RemotePrefillRequest) uint64 {
	tb.Helper()
	sequence, err := q.Publish(within(tb), j, "")
	if err != nil {
		tb.Fatal(err)
	}
	return sequence
}

func pull(tb testing.TB, q *Queue, n int) []*Job {
	tb.Helper()
	jobs, err := q.Pull(within(tb), n)
	if err != nil {
		tb.Fatal(err)
	}
	return jobs
}

// depth waits until the queue has so many jobs: NATS handles an acknowledgement after the
// call has returned.
func depth(tb testing.TB, q *Queue, waiting, working int) {
	tb.Helper()
	ctx := within(tb)
	for {
		d, err := q.Depth(ctx)
		if err != nil {
			tb.Fatalf("depth is %+v, %v; want %d waiting, %d working", d, err, waiting, working)
		}
		if d.Waiting == waiting && d.Working == working {
			return
		}
	}
}

// status waits until the connection is in this state.
func status(tb testing.TB, nc *nats.Conn, want nats.Status) {
	tb.Helper()
	ctx := within(tb)
	changes := nc.StatusChanged(want)
	defer nc.RemoveStatusListener(changes)
	for nc.Status() != want {
		select {
		case <-changes:
		case <-ctx.Done():
			tb.Fatalf("connection is %v, want %v", nc.Status(), want)
		}
	}
}

// proxy passes bytes to NATS until it is frozen: then it takes them and answers nothing.
type proxy struct {
	lis     net.Listener
	running sync.WaitGroup
	frozen  chan struct{}
}

func startProxy(tb testing.TB, target string) *proxy {
	tb.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{lis: lis, frozen: make(chan struct{})}
	p.running.Go(func() {
		in, err := lis.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", target)
		if err != nil {
			in.Close()
			return
		}
		p.running.Go(func() { p.pass(out, in); out.Close() })
		p.running.Go(func() { p.pass(in, out); in.Close() })
	})
	tb.Cleanup(func() { lis.Close(); p.running.Wait() })
	return p
}

func (p *proxy) pass(to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-p.frozen:
		default:
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}
