package decodeworker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// probed plays a prefill worker whose memory is real.
type probed struct {
	prefillworkerv1.PrefillWorkerClient
	worker *worker.Worker
	asked  atomic.Int32
}

func (p *probed) Probe(_ context.Context, r *prefillworkerv1.ProbeRequest, _ ...grpc.CallOption) (*prefillworkerv1.ProbeResponse, error) {
	n := p.asked.Add(1)
	peer := nixl.PeerID{Name: r.GetDecodeWorker(), Incarnation: r.GetDecodeIncarnation()}
	g := nixl.Grant{Number: uint64(n), Op: nixl.Read, Region: worker.ProbeRegion, Blocks: worker.ProbeBlocks()}
	return &prefillworkerv1.ProbeResponse{Grant: g.Number, Bytes: worker.ProbeBytes}, p.worker.Agent.Allow(peer, g)
}

// probed makes one that has joined.
func (h *harness) probed() *probed {
	h.t.Helper()
	agent, err := h.net.NewAgent(nixl.Config{Name: "prefill", Incarnation: "1", KVFormat: "toy"})
	if err != nil {
		h.t.Fatal(err)
	}
	p := &probed{}
	if p.worker, err = worker.New(worker.DefaultConfig(), worker.Deps{
		Executor: enginetest.NewToy(blockTokens, 150), Agent: agent, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- p.worker.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ran, p.worker.Close()); err != nil {
			h.t.Error(err)
		}
	})
	endpoint, err := p.worker.Endpoint(worker.InProc)
	if err != nil {
		h.t.Fatal(err)
	}
	h.prefill = p
	h.prefills.Store(&[]*instancev1.Instance{{Id: "prefill", Incarnation: "1", Transfer: []*instancev1.TransferEndpoint{endpoint}}})
	return p
}

func TestALinkIsPublishedAndDecidedBy(t *testing.T) {
	h := newHarness(t, nil)
	h.probed()
	h.start()
	tick, end := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer tick.Stop()
	var l *decodeworkerv1.Link
	for l.GetMeasuredBy() != decodeworkerv1.LinkSource_LINK_SOURCE_PROBE {
		d, err := h.client.Describe(within(t), &decodeworkerv1.DescribeRequest{}, grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(d.GetLinks()); n == 1 {
			l = d.GetLinks()[0]
		} else if n > 1 {
			t.Fatalf("the links are %v", d.GetLinks())
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not probed: %v", l)
		}
	}
	// What the test's agent takes to get there it does not say.
	if l.GetPrefillWorker() != "prefill" || l.GetClass() != link.Unknown.String() || l.GetBytesPerSecond() <= 0 || l.GetLatency().AsDuration() <= 0 {
		t.Errorf("the link is %v", l)
	}
	s := h.d.speeds.Speeds(time.Now())
	if ratio := s.LinkBytesPerSecond / l.GetBytesPerSecond(); ratio < 0.99 || ratio > 1.01 || (s.LinkLatency-l.GetLatency().AsDuration()).Abs() > time.Microsecond {
		t.Errorf("a decision goes by %v and %v, the link is %v", s.LinkLatency, s.LinkBytesPerSecond, l)
	}
	h.checkLinkMetric(uint64(l.GetBytesPerSecond()))
}

func (h *harness) checkLinkMetric(want uint64) {
	h.t.Helper()
	var all metricdata.ResourceMetrics
	if err := h.meter.Collect(within(h.t), &all); err != nil {
		h.t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			gauge, is := m.Data.(metricdata.Gauge[int64])
			if m.Name != "switchyard.handoff.link" || !is || len(gauge.DataPoints) != 1 {
				continue
			}
			if peer, _ := gauge.DataPoints[0].Attributes.Value("peer"); peer.AsString() == "prefill" && gauge.DataPoints[0].Value == int64(want) {
				return
			}
		}
	}
	h.t.Errorf("no metric says %d: %+v", want, all.ScopeMetrics)
}

func TestAWorkerThatDrainsProbesNobody(t *testing.T) {
	h := newHarness(t, nil)
	p := h.probed()
	draining, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- h.d.probeLoop(draining, t.Context()) }()
	if err := take(t, "the end of the probes", ended); err != nil || p.asked.Load() > 0 {
		t.Errorf("%v, and %d probes", err, p.asked.Load())
	}
	h.start()
}
