package processor_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
	"github.com/switchyard-llm/switchyard/services/processor/router"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

// eventually asks until the answer is right.
func eventually(t testing.TB, what string, ask func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ask(); {
		if time.Now().After(deadline) {
			t.Fatalf("after 10 s still not: %s", what)
		}
	}
}

func routing(t testing.TB, h *harness) *processorv1.RoutingResponse {
	t.Helper()
	r, err := h.Routing(t.Context(), &processorv1.RoutingRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestProcessorsHearOfEachOthersBookings(t *testing.T) {
	server, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	release := make(chan struct{})
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		<-release
		workertest.Answer(ctx, s, sub)
	})
	peers := &members{changed: make(chan struct{})}
	var both []*harness
	var instances []*instancev1.Instance
	for i := range 2 {
		nc, err := nats.Connect(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		in := &instancev1.Instance{Id: fmt.Sprint("p", i), Incarnation: fmt.Sprint("life-", i), Role: instancev1.Role_ROLE_PROCESSOR}
		instances = append(instances, in)
		both = append(both, start(t, options{deps: func(d *processor.Deps) { d.Instance, d.NATS, d.Processors = in, nc, peers }}, w))
	}
	other := func() *processorv1.RoutedWorker { return routing(t, both[1]).GetWorkers()[0] }
	peers.set(instances...)
	answers := make(chan result)
	sent := uint64(0)
	// Whether the others are there is learnt in the background: until then nothing is shared.
	eventually(t, "a booking is heard of", func() bool {
		if sent < 20 {
			sent++
			go func() { answers <- both[0].generate(t.Context(), request("seventeen letters", 3)) }()
		}
		return routing(t, both[1]).GetSharedBookings() > 0
	})
	eventually(t, "all bookings were made", func() bool { return routing(t, both[0]).GetDecisions() == sent })
	if l := other(); l.GetDecodeTokens() < 17 || l.GetSequences() != 0 {
		t.Errorf("the other processor takes the worker to carry %v", l)
	}
	close(release)
	for range sent {
		if r := <-answers; r.err != nil {
			t.Error(r.err)
		}
	}
	eventually(t, "all have ended for the other processor as well", func() bool { return other().GetDecodeTokens() == 0 })
	if own := routing(t, both[0]).GetWorkers()[0]; own.GetSequences() != sent || own.GetPromptTokens() != 17*sent || own.GetCachedTokens() != sent {
		t.Errorf("the worker's counts are %v, want %d sequences of 17 tokens, of which one was there", own, sent)
	}
}

// Whoever may publish can say anything; only those count that discovery knows, of whom there are few.
func TestOnlyProcessorsThatDiscoveryKnowsAreListenedTo(t *testing.T) {
	server, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	w := workertest.Start(t, "w", nil)
	peers := &members{changed: make(chan struct{})}
	self := &instancev1.Instance{Id: "p", Incarnation: "1", Role: instancev1.Role_ROLE_PROCESSOR}
	other := &instancev1.Instance{Id: "other", Incarnation: "1", Role: instancev1.Role_ROLE_PROCESSOR}
	h := start(t, options{deps: func(d *processor.Deps) { d.Instance, d.NATS, d.Processors = self, nc, peers }}, w)
	peers.set(self, other)
	at := routing(t, h).GetWorkers()[0]
	book := func(name string, number uint64, tokens uint32) {
		data, err := proto.Marshal(&processorv1.Bookings{Processor: name, Incarnation: "1", Bookings: []*processorv1.Booking{{
			Kind: processorv1.BookingKind_BOOKING_KIND_BOOKED, Worker: at.GetWorker(), WorkerIncarnation: at.GetIncarnation(), Stream: 1,
			Number: number, DecodeTokens: tokens,
		}}})
		if err == nil {
			err = nc.Publish("switchyard.bookings."+broker.Token(request("", 1).GetModel()), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the other processor is heard of", func() bool {
		for i := range 100 {
			book(fmt.Sprint("stranger-", i), 1, 1000)
		}
		book("other", 1, 7) // is heard last, and counts once
		return routing(t, h).GetSharedBookings() > 0
	})
	if got := routing(t, h).GetWorkers()[0].GetDecodeTokens(); got != 7 {
		t.Errorf("the worker is taken to carry %d tokens, want the 7 of the processor that is known", got)
	}
}

func TestARouteIsExplained(t *testing.T) {
	a, b := workertest.Start(t, "a", nil), workertest.Start(t, "b", nil)
	h := start(t, options{}, a, b)
	req := request("a prompt of some blocks, which are sixteen tokens each", 3)
	r := h.generate(t.Context(), req)
	if r.err != nil {
		t.Fatal(r.err)
	}
	at := r.last().GetServed().GetDecodeWorker()
	got, err := h.ExplainRoute(t.Context(), &processorv1.ExplainRouteRequest{Request: req})
	if err != nil {
		t.Fatal(err)
	}
	first := got.GetCandidates()[0]
	if got.GetPolicy() != "kv" || got.GetPromptTokens() != 54 || len(got.GetCandidates()) != 2 || first.GetWorker() != at || first.GetDeviceBlocks() != 3 ||
		first.GetUncachedTokens() != 54-48 || !first.GetInBlocks() || first.GetCost() != got.GetPrefillWeight()*first.GetPrefill()+first.GetQueue()+got.GetDecodeWeight()*first.GetDecode() {
		t.Errorf("the route is %v, want %s first", got, at)
	}
	if _, err := h.ExplainRoute(t.Context(), &processorv1.ExplainRouteRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no request: %v, want INVALID_ARGUMENT", err)
	}
	w := &decodeworkerv1.Load{Speed: &decodeworkerv1.Speed{}, Report: &instancev1.LoadReport{WaitingPromptTokens: 1600}}
	a.Report(w)
	b.Report(w)
	eventually(t, "the reports count", func() bool {
		got, err = h.ExplainRoute(t.Context(), &processorv1.ExplainRouteRequest{Request: req})
		return err == nil && got.GetCandidates()[0].GetQueue() == 100 && got.GetCandidates()[1].GetQueue() == 100
	})
}

func TestARequestGoesToTheWorkerThatItNames(t *testing.T) {
	a, b := workertest.Start(t, "a", nil), workertest.Start(t, "b", nil)
	h := start(t, options{}, a, b)
	for _, name := range []string{"a", "b", "b", "a"} {
		req := request("hello", 2)
		req.DecodeWorker = name
		if r := h.generate(t.Context(), req); r.err != nil || r.last().GetServed().GetDecodeWorker() != name {
			t.Errorf("asked for %s: %v, %v", name, r.last().GetServed(), r.err)
		}
	}
	req := request("hello", 2)
	req.DecodeWorker = "nobody"
	if r := h.generate(t.Context(), req); status.Code(r.err) != codes.InvalidArgument {
		t.Errorf("asked for nobody: %v, want INVALID_ARGUMENT", r.err)
	}
}

func TestThePolicyChangesLive(t *testing.T) {
	a := workertest.Start(t, "a", nil)
	changes := make(chan router.Weights)
	h := start(t, options{deps: func(d *processor.Deps) {
		d.Weights = func(ctx context.Context) iter.Seq[router.Weights] {
			return func(yield func(router.Weights) bool) {
				for {
					select {
					case w := <-changes:
						if !yield(w) {
							return
						}
					case <-ctx.Done():
						return
					}
				}
			}
		}
		d.Logger = slog.New(slog.DiscardHandler)
	}}, a)
	w := router.DefaultWeights()
	w.Policy = router.Direct
	changes <- w
	changes <- w // the first has been applied
	if r := h.generate(t.Context(), request("hello", 2)); status.Code(r.err) != codes.InvalidArgument {
		t.Errorf("a request that names no worker: %v, want INVALID_ARGUMENT", r.err)
	}
	req := request("hello", 2)
	req.DecodeWorker = "a"
	if r := h.generate(t.Context(), req); r.err != nil {
		t.Error(r.err)
	}
}
