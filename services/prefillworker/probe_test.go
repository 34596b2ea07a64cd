package prefillworker

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

func probeRequest() *prefillworkerv1.ProbeRequest {
	return &prefillworkerv1.ProbeRequest{PrefillIncarnation: "1", DecodeWorker: "decode", DecodeIncarnation: "1"}
}

// newProber is a decode worker that measures its link.
func newProber(t *testing.T) *reader {
	t.Helper()
	h := newHarness(t, nil)
	h.start()
	r := &reader{harness: h, client: h.client()}
	r.connect()
	return r
}

func (r *reader) probe() *prefillworkerv1.ProbeResponse {
	r.t.Helper()
	a, err := r.client.Probe(within(r.t), probeRequest())
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// readProbe reads the last bytes of the probe memory.
func (r *reader) readProbe(a *prefillworkerv1.ProbeResponse, region nixl.RegionID) error {
	const some = 16
	transfer, err := nixl.Post(within(r.t), r.decode.agent, nixl.Request{
		Peer: nixl.PeerID{Name: "prefill", Incarnation: "1"}, Op: nixl.Read, Grant: &nixl.Grant{Number: a.GetGrant(), Op: nixl.Read}, Remote: region,
		Copies: []nixl.Copy{{Local: block.Span{Bytes: some}, Remote: block.Span{Offset: int(a.GetBytes()) - some, Bytes: some}}},
	})
	if err != nil {
		return err
	}
	return nixl.Settle(within(r.t), transfer, 0)
}

func TestADecodeWorkerMayReadTheProbeMemoryAndNothingElse(t *testing.T) {
	r := newProber(t)
	a := r.probe()
	if err := r.readProbe(a, worker.ProbeRegion); err != nil || a.GetBytes() != worker.ProbeBytes {
		t.Errorf("%v: %v", a, err)
	}
	small := &prefillworkerv1.ProbeResponse{Grant: a.GetGrant(), Bytes: 16}
	if err := r.readProbe(small, 0); !errors.Is(err, nixl.ErrNotGranted) {
		t.Errorf("reading the pool: %v, want %v", err, nixl.ErrNotGranted)
	}
	if again := r.probe(); again.GetGrant() != a.GetGrant() {
		t.Errorf("a repetition got grant %d, want %d", again.GetGrant(), a.GetGrant())
	}
}

func TestAProbeOfAnotherLifeIsRefused(t *testing.T) {
	r := newProber(t)
	for name, change := range map[string]func(*prefillworkerv1.ProbeRequest){
		"another life": func(q *prefillworkerv1.ProbeRequest) { q.PrefillIncarnation = "2" },
		"nobody":       func(q *prefillworkerv1.ProbeRequest) { q.DecodeWorker = "" },
		"no life":      func(q *prefillworkerv1.ProbeRequest) { q.DecodeIncarnation = "" },
	} {
		want, q := codes.InvalidArgument, probeRequest()
		if change(q); q.GetPrefillIncarnation() != "1" {
			want = codes.FailedPrecondition
		}
		if a, err := r.client.Probe(within(t), q); rpc.Code(err) != want {
			t.Errorf("%s: %v, %v, want %v", name, a, err, want)
		}
	}
}

func (r *reader) leaves() int {
	r.p.probes.mu.Lock()
	defer r.p.probes.mu.Unlock()
	return len(r.p.probes.leaves)
}

func TestALeaveToProbeEndsWithItsPeer(t *testing.T) {
	r := newProber(t)
	a := r.probe()
	if _, err := r.p.letProbe(r.decode.agent.ID(), time.Now().Add(time.Hour)); err != nil { // its time alone does not end it
		t.Fatal(err)
	}
	if err := r.decode.agent.RemovePeer(nixl.PeerID{Name: "prefill", Incarnation: "1"}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the leave has ended", func() bool { return r.leaves() == 0 }, func() any { return r.leaves() })
	r.connect()
	if err := r.readProbe(a, worker.ProbeRegion); !errors.Is(err, nixl.ErrNotGranted) {
		t.Errorf("a read by the former leave: %v, want %v", err, nixl.ErrNotGranted)
	}
	if b := r.probe(); b.GetGrant() == a.GetGrant() {
		t.Errorf("got grant %d again", b.GetGrant())
	}
}

// One that asks and never connects is never gone.
func TestALeaveToProbeEndsWithItsTime(t *testing.T) {
	r := newProber(t)
	begun := time.Now().Add(-probeFor)
	for i := range probesMax {
		if _, err := r.p.letProbe(nixl.PeerID{Name: strconv.Itoa(i), Incarnation: "1"}, begun.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.client.Probe(within(t), probeRequest()); rpc.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want %v", err, codes.ResourceExhausted)
	}
	if _, err := r.p.letProbe(nixl.PeerID{Name: "0", Incarnation: "1"}, begun); err != nil { // known: there is room for it
		t.Fatal(err)
	}
	r.eventually("one leave has ended", func() bool { return r.leaves() == probesMax-1 }, func() any { return r.leaves() })
	r.probe()
}
