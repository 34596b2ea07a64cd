package decodeworker

import (
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/prefillqueue"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

func byCost(h *harness) {
	p := disagg.DefaultPolicy(blockTokens)
	h.policy.Store(&p)
}

// salted is a prompt that shares no block with others.
func salted(i int) *generationv1.Sequence {
	q := spec(3)
	q.CacheSalt = fmt.Sprint(i)
	return q
}

// serve completes the next job.
func (p *prefiller) serve() {
	p.h.t.Helper()
	job := take(p.h.t, "a job", p.h.queue.arrived)
	p.complete(job, p.claim(job, job.GetTransferId()).GetTicket(), prompt, enginetest.ToyAnswer(prompt, 1)[0])
}

// reasons are the decisions and fallbacks so far.
func (h *harness) reasons() map[string]uint64 {
	h.t.Helper()
	d, err := h.client.Describe(within(h.t), &decodeworkerv1.DescribeRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	return d.GetHandOff().GetReasons()
}

// attributes are those of the latest span of a name.
func (h *harness) attributes(name string) map[attribute.Key]attribute.Value {
	h.t.Helper()
	r := make(map[attribute.Key]attribute.Value)
	for _, s := range h.spans.GetSpans() {
		if s.Name == name {
			clear(r)
			for _, a := range s.Attributes {
				r[a.Key] = a.Value
			}
		}
	}
	return r
}

// recorded counts what a histogram holds, by placement.
func (h *harness) recorded(name string) map[string]uint64 {
	h.t.Helper()
	var all metricdata.ResourceMetrics
	if err := h.meter.Collect(within(h.t), &all); err != nil {
		h.t.Fatal(err)
	}
	r := make(map[string]uint64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if points, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == name {
				for _, p := range points.DataPoints {
					where, _ := p.Attributes.Value("placement")
					r[where.AsString()] += p.Count
				}
			}
		}
	}
	return r
}

func TestADecisionShowsWithItsPrediction(t *testing.T) {
	h := newHarness(t, nil).start()
	byCost(h)
	p, s := h.prefiller(), h.attach("p", "1")
	s.submit(1, 1, salted(1))
	p.serve()
	if e := s.end(); e.GetPlacement() != placedThere {
		t.Fatalf("placed %v, want there before anything was measured", e.GetPlacement())
	}
	h.prefills.Store(&[]*instancev1.Instance{})
	s.submit(2, 2, salted(2))
	s.end()
	h.checkIdle()
	if got := h.reasons(); got["remote_faster"] != 1 || got["no_prefill_worker"] != 1 {
		t.Errorf("reasons %v", got)
	}
	a := h.attributes("decodeworker.decide")
	for _, key := range []attribute.Key{"local_ttft_ms", "remote_ttft_ms"} {
		if a[key].AsFloat64() <= 0 {
			t.Errorf("%s of the decision is %v", key, a[key].AsFloat64())
		}
	}
	for _, key := range []attribute.Key{"itl_harm_ms", "queue_wait_ms"} {
		if v, ok := a[key]; !ok || v.AsFloat64() != 0 {
			t.Errorf("%s of the decision is %v, want 0", key, v)
		}
	}
	a = h.attributes("decodeworker.generate")
	if a["ttft_ms"].AsFloat64() <= 0 || a["predicted_ttft_ms"].AsFloat64() <= 0 {
		t.Errorf("the span of the sequence says %v", a)
	}
	for _, name := range []string{"switchyard.handoff.ttft", "switchyard.handoff.ttft.error"} {
		if got := h.recorded(name); got["local"] != 1 || got["remote"] != 1 {
			t.Errorf("%s counts %v, want one of each", name, got)
		}
	}
}

func TestSlowHandOffsEndTheSplitting(t *testing.T) {
	h := newHarness(t, nil).start()
	byCost(h)
	p, s := h.prefiller(), h.attach("p", "1")
	p.work = func(n *transferv1.CompletionNote) {
		n.ComputeTime, n.ComputedTokens = durationpb.New(10*time.Second), uint32(len(prompt))
	}
	for i := range 2 { // one may be an accident
		s.submit(uint32(i), uint64(i), salted(i))
		p.serve()
		s.end()
	}
	s.submit(9, 9, salted(9))
	if e := s.end(); e.GetPlacement() != placedHere {
		t.Errorf("placed %v, want here", e.GetPlacement())
	}
	if got := h.reasons(); got["local_faster"] != 1 {
		t.Errorf("reasons %v", got)
	}
	h.checkIdle()
}

func TestLostHandOffsEndTheSplitting(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.HandOff.Deadline, c.HandOff.PerToken = 200*time.Millisecond, 0 }).start()
	byCost(h)
	s := h.attach("p", "1") // and no prefill worker that would take a job
	for i := range 2 {
		s.submit(uint32(i), uint64(i), salted(i))
		s.end()
	}
	s.submit(9, 9, salted(9))
	s.end()
	if got := h.reasons(); got["fallback_deadline"] != 2 || got["local_faster"] != 1 {
		t.Errorf("reasons %v", got)
	}
	h.checkIdle()
}

func TestTheQueueKeepsPromptsHere(t *testing.T) {
	for _, tc := range []struct {
		reason string
		depth  *prefillqueue.Depth
	}{
		{"queue_unreachable", nil},
		{"long_queue", &prefillqueue.Depth{Waiting: 100}},
		{"old_queue", &prefillqueue.Depth{Waiting: 1, Oldest: time.Minute}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			h := newHarness(t, nil).start()
			byCost(h)
			h.queue.depth.Store(tc.depth)
			s := h.attach("p", "1")
			s.submit(1, 1, salted(1))
			s.end()
			if got := h.reasons(); got[tc.reason] != 1 {
				t.Errorf("reasons %v", got)
			}
			h.checkIdle()
		})
	}
}

func TestWhatIsAheadOfAPrompt(t *testing.T) {
	var p phases
	p.tokens[prefilling], p.tokens[handedOff], p.tokens[decoding] = 100, 30, 500
	for _, tc := range []struct{ waiting, want int }{
		{100 + 30 + 10, 100},
		{60 + 30 + 10, 60},         // some rows are in place
		{100 + 30 + 10 + 900, 100}, // others wait for blocks
		{0, 0},                     // the two were not asked at the same moment
	} {
		if got := p.ahead(tc.waiting, 10); got != tc.want {
			t.Errorf("%d are ahead of 10 among %d, want %d", got, tc.waiting, tc.want)
		}
	}
}

// What runs here, and what this worker has handed off that the queue does not show yet,
// are among the facts.
func TestADecisionKnowsWhatRuns(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	s := h.attach("p", "1")
	s.submit(1, 1, salted(1))
	g.one <- struct{}{} // its prompt
	take(t, "a token", s.token)
	p := h.prefiller()
	byCost(h)
	s.submit(2, 2, salted(2))
	job := take(t, "a job", h.queue.arrived)
	a := h.attributes("decodeworker.decide")
	if a["decoding"].AsInt64() != 1 || a["ahead_tokens"].AsInt64() != 0 {
		t.Errorf("the decision knew %v", a)
	}
	s.submit(3, 3, salted(3)) // the third is behind the second in the queue
	close(g.open)
	for range 2 {
		if e := s.end(); e.GetSequenceId() == 2 {
			t.Errorf("the second ended before its prompt came back")
		}
	}
	p.complete(job, p.claim(job, "a").GetTicket(), prompt, enginetest.ToyAnswer(prompt, 1)[0])
	s.end()
	if got := h.reasons(); got["long_queue"] != 1 {
		t.Errorf("reasons %v, want the third kept here by the queue", got)
	}
	h.checkIdle()
}
