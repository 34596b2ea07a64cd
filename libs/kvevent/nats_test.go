package kvevent

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startNATS(t *testing.T, address string) *embedded.NATS {
	t.Helper()
	n, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func connect(t *testing.T, n *embedded.NATS) *nats.Conn {
	t.Helper()
	nc, err := broker.Connect(t.Context(), n.URL(), t.Name(), discard())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// served is a decode worker that serves nothing but its snapshots.
type served struct {
	decodeworkerv1.UnimplementedDecodeWorkerServer
	snapshots *Snapshots
}

// Snapshot implements decodeworkerv1.DecodeWorkerServer.
func (s served) Snapshot(r *decodeworkerv1.SnapshotRequest, stream grpc.ServerStreamingServer[decodeworkerv1.SnapshotResponse]) error {
	return s.snapshots.Serve(r.GetQuery(), func(p *kveventv1.SnapshotPart) error {
		return stream.Send(&decodeworkerv1.SnapshotResponse{Part: p})
	})
}

// serve serves a life's snapshots over gRPC and returns how to ask for them.
func serve(t *testing.T, s *Snapshots) func(context.Context, Source) (Parts, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainStreamInterceptor(rpc.StreamInterceptor(discard())))
	decodeworkerv1.RegisterDecodeWorkerServer(server, served{snapshots: s})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	client := decodeworkerv1.NewDecodeWorkerClient(conn)
	return func(ctx context.Context, s Source) (Parts, error) {
		stream, err := client.Snapshot(ctx, &decodeworkerv1.SnapshotRequest{
			Query: &kveventv1.SnapshotQuery{Incarnation: s.Incarnation, DpRank: s.Rank},
		})
		if err != nil {
			return nil, err
		}
		return PartsOf(stream), nil
	}
}

// until waits for what other processes' clocks decide.
func until(t *testing.T, f *Follower, what string, ok func(Counts, []SourceStats) bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok(f.Counts(), f.Sources()) {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not so after 20 s: %+v, %+v", what, f.Counts(), f.Sources())
		}
	}
}

func at(sequence uint64) func(Counts, []SourceStats) bool {
	return func(_ Counts, all []SourceStats) bool {
		return len(all) == 1 && all[0].Complete && all[0].Sequence == sequence
	}
}

// TestARouterKnowsWhatAWorkerHoldsAlsoAfterNATSWasAway runs the whole way: a pool, NATS that goes
// and comes back, and snapshots by gRPC.
func TestARouterKnowsWhatAWorkerHoldsAlsoAfterNATSWasAway(t *testing.T) {
	server := startNATS(t, "")
	l := newLife(t, "decode 0.x", 1)
	sink := newPlain(t)
	cfg := DefaultFollowerConfig(Decode, testModel, testBlock)
	cfg.Silence, cfg.Pause = 50*time.Millisecond, 50*time.Millisecond
	f, err := NewFollower(cfg, Deps{NATS: connect(t, server), Snapshot: serve(t, l.serves), Sink: sink, Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	l.grown(20_000) // more than a part of a snapshot, and than the log holds
	start(t, f)
	nc := connect(t, server)
	out := NewBatches(l.header, OverNATS(nc, l.header))
	publish(t, NewPublisher(l.pool, time.Millisecond, out))
	f.Reported(l.source(), l.pool.Sequence())
	until(t, f, "met", at(20_000))
	l.grown(30)
	until(t, f, "more events", at(20_030))
	sink.check(l.source(), l.pool)

	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	l.grown(10)
	until(t, f, "NATS is away", func(Counts, []SourceStats) bool { return !nc.IsConnected() })
	l.grown(10)
	f.Reported(l.source(), l.pool.Sequence()) // gRPC is not NATS
	until(t, f, "told by a report while NATS is away", at(20_050))
	sink.check(l.source(), l.pool)

	startNATS(t, server.Address())
	until(t, f, "NATS is back", func(Counts, []SourceStats) bool { return nc.IsConnected() && f.deps.NATS.IsConnected() })
	l.grown(10)
	until(t, f, "an event after NATS was away", at(20_060))
	sink.check(l.source(), l.pool)
	if _, dropped := out.Counts(); dropped == 0 {
		t.Error("nothing was dropped while NATS was away")
	}
}

// grown stores n blocks; the publisher finds them.
func (l *life) grown(n int) {
	l.t.Helper()
	first, chain := l.pool.Sequence()+1, make([]block.Hash, n)
	for i := range chain {
		chain[i] = block.Hash(first+uint64(i)) << 20
	}
	l.pool.StoredBelow(block.Disk, l.root, chain)
}

func publish(t *testing.T, p *Publisher) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSnapshotsAreRefusedWithTheirCodes(t *testing.T) {
	l := newLife(t, "w", 1)
	l.grown(1)
	query := func(incarnation string, rank uint32) *kveventv1.SnapshotQuery {
		return &kveventv1.SnapshotQuery{Incarnation: incarnation, DpRank: rank}
	}
	none := func(*kveventv1.SnapshotPart) error { return nil }
	var inner error
	own := l.source().Incarnation
	one := NewSnapshots(l.pool, l.header, 1)
	err := one.Serve(query(own, 0), func(*kveventv1.SnapshotPart) error {
		inner = one.Serve(query(own, 0), none)
		return nil
	})
	gone := errors.New("hung up")
	for name, got := range map[string]struct {
		err  error
		want codes.Code
	}{
		"a first":      {err, codes.OK},
		"one too many": {inner, codes.ResourceExhausted},
		"one after":    {one.Serve(query(own, 0), none), codes.OK},
		"another life": {one.Serve(query("0", 0), none), codes.FailedPrecondition},
		"another rank": {one.Serve(query(own, 1), none), codes.NotFound},
	} {
		if code := rpc.Code(got.err); code != got.want {
			t.Errorf("%s: %v (%v), want %v", name, code, got.err, got.want)
		}
	}
	if err := one.Serve(query(own, 0), func(*kveventv1.SnapshotPart) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("a broken stream: %v", err)
	}
}
