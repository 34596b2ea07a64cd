package prefillworker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

const (
	stale = prefillworkerv1.ReleaseOutcome_RELEASE_OUTCOME_STALE
	ok    = prefillworkerv1.ReleaseOutcome_RELEASE_OUTCOME_OK
)

func pulls(c *Config) { c.Engine.Style = worker.Pull }

// reader plays the decode worker that asks.
type reader struct {
	*harness
	client prefillworkerv1.PrefillWorkerClient
}

func newReader(t *testing.T, change func(*Config)) *reader {
	t.Helper()
	h := newHarness(t, func(c *Config) {
		pulls(c)
		if change != nil {
			change(c)
		}
	})
	return &reader{harness: h, client: h.client()}
}

func request(attempt string) *prefillworkerv1.PrefillRequest {
	return &prefillworkerv1.PrefillRequest{
		TransferId: "t", AttemptId: attempt, Sequence: spec(), PrefillIncarnation: "1", KvFormat: "toy",
		DecodeWorker: "decode", DecodeIncarnation: "1",
	}
}

// of is a prompt that shares nothing with the others.
func of(attempt string, first sequence.Token) *prefillworkerv1.PrefillRequest {
	r := request(attempt)
	r.Sequence.Prompt = slices.Clone(r.Sequence.Prompt)
	r.Sequence.Prompt[0] = first
	return r
}

// answer is what Prefill said.
type answer struct {
	*prefillworkerv1.PrefillResponse
	err error
}

func (r *reader) ask(ctx context.Context, q *prefillworkerv1.PrefillRequest) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		resp, err := r.client.Prefill(ctx, q)
		got <- answer{resp, err}
	}()
	return got
}

func (r *reader) held(attempt string) *prefillworkerv1.PrefillResponse {
	r.t.Helper()
	a := take(r.t, "an answer", r.ask(within(r.t), request(attempt)))
	if a.err != nil {
		r.t.Fatal(a.err)
	}
	return a.PrefillResponse
}

func (r *reader) refused(q *prefillworkerv1.PrefillRequest, want codes.Code) {
	r.t.Helper()
	if a := take(r.t, "an answer", r.ask(within(r.t), q)); rpc.Code(a.err) != want {
		r.t.Errorf("Prefill = %v, %v, want %v", a.PrefillResponse, a.err, want)
	}
}

func (r *reader) connect() {
	r.t.Helper()
	metadata, err := r.worker.Agent.Metadata()
	if err == nil {
		_, err = r.decode.agent.AddPeer(within(r.t), metadata)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// read copies what an answer offers into the decode worker's table.
func (r *reader) read(a *prefillworkerv1.PrefillResponse) error {
	r.t.Helper()
	r.connect()
	var copies []nixl.Copy
	layout := r.worker.Layout()
	for i, remote := range a.GetBlocks().GetBlocks() {
		at := int(a.GetFirstPosition())/blockTokens + i
		rows := min(blockTokens, int(a.GetEndPosition())-at*blockTokens)
		copies = nixl.AppendCopies(copies, layout, table[at], block.ID(remote), rows)
	}
	transfer, err := nixl.Post(within(r.t), r.decode.agent, nixl.Request{
		Peer: nixl.PeerID{Name: "prefill", Incarnation: "1"}, Op: nixl.Read, Copies: copies,
		Grant: &nixl.Grant{Number: a.GetGrant(), Op: nixl.Read, Blocks: worker.Refs(a.GetBlocks())},
	})
	if err != nil {
		return err
	}
	return transfer.Wait(within(r.t))
}

func (r *reader) release(attempt string, want prefillworkerv1.ReleaseOutcome) {
	r.t.Helper()
	a, err := r.client.Release(within(r.t), &prefillworkerv1.ReleaseRequest{TransferId: "t", AttemptId: attempt, PrefillIncarnation: "1"})
	if err != nil || a.GetOutcome() != want {
		r.t.Errorf("release %s = %v, %v, want %v", attempt, a, err, want)
	}
}

func (r *reader) cancel(attempt string) {
	r.t.Helper()
	_, err := r.client.Cancel(within(r.t), &prefillworkerv1.CancelRequest{TransferId: "t", AttemptId: attempt, PrefillIncarnation: "1"})
	if err != nil {
		r.t.Error(err)
	}
}

func TestAPromptThatWasAskedForIsHeldReadAndReleased(t *testing.T) {
	r := newReader(t, nil)
	r.start()
	a := r.held("a")
	if n := r.p.jobReport().GetHeldBlocks(); n != 3 {
		t.Errorf("%d blocks are held, want 3", n)
	}
	if again := r.held("a"); !proto.Equal(again, a) {
		t.Errorf("a repetition was answered %v, want %v", again, a)
	}
	if err := r.read(a); err != nil {
		t.Fatal(err)
	}
	r.checkWritten(prompt, a.GetFirstTokens()[0].GetToken())
	for range 2 { // the second is a repetition
		r.release("a", ok)
	}
	r.checkIdle()
	if err := r.read(a); !errors.Is(err, nixl.ErrNotGranted) {
		t.Errorf("a read after the release: %v", err)
	}
	r.refused(request("a"), codes.Aborted)
	b := request("b") // the caller has the first block, and this worker two
	b.FirstPosition = blockTokens
	got := take(t, "an answer", r.ask(within(t), b))
	if got.err != nil || got.GetOwnHitTokens() != 2*blockTokens || got.GetComputedTokens() != 2 || len(got.GetBlocks().GetBlocks()) != 2 {
		t.Errorf("answer %v, want two blocks, of which one was cached", got)
	}
	r.release("b", ok)
	r.report("two holds", func(r *prefillworkerv1.JobReport) bool {
		return r.GetCalls() == 2 && r.GetCallsRepeated() == 1 && r.GetHolds() == 2 && r.GetHoldsReleased() == 2 &&
			r.GetHeldBlocks() == 0 && r.GetHeldBlocksHighWater() == 3 && r.GetComputedTokens() == uint64(len(prompt)+2)
	})
	r.checkIdle()
}

func TestAHoldThatIsNotReleasedEndsWithItsLease(t *testing.T) {
	r := newReader(t, func(c *Config) { c.Hold, c.HoldPerToken = 10*time.Millisecond, time.Millisecond })
	r.start()
	a := r.held("a")
	if got, want := a.GetHold().AsDuration(), 20*time.Millisecond; got != want {
		t.Errorf("held for %v, want %v", got, want)
	}
	r.checkIdle()
	if err := r.read(a); !errors.Is(err, nixl.ErrNotGranted) {
		t.Errorf("a read after the lease: %v", err)
	}
	for range 2 {
		r.release("a", stale)
	}
	r.release("never begun", stale)
	r.report("one expired", func(r *prefillworkerv1.JobReport) bool {
		return r.GetHoldsExpired() == 1 && r.GetStaleReleases() == 3 && r.GetPromptTokens() == 0
	})
}

func TestACallThatNobodyWaitsForEndsTheComputation(t *testing.T) {
	for name, end := range map[string]func(r *reader, cancel func()){
		"the context":    func(_ *reader, cancel func()) { cancel() },
		"Cancel":         func(r *reader, _ func()) { r.harness.t.Helper(); r.cancel("a") },
		"the peer's end": func(r *reader, _ func()) { _ = r.decode.agent.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, func(c *Config) { c.Calls = 1 })
			g := newGate()
			r.step = g.wait
			r.start()
			r.connect()
			ctx, cancel := context.WithCancel(within(t))
			got := r.ask(ctx, request("a"))
			take(t, "a step", g.reached)
			end(r, cancel)
			r.eventually("the call was dropped", func() bool {
				r.p.calls.mu.Lock()
				defer r.p.calls.mu.Unlock()
				return r.p.calls.known[attemptKey{"t", "a"}].dropped
			}, func() any { return nil })
			close(g.open)
			if a := take(t, "an answer", got); a.err == nil {
				t.Errorf("answered %v", a)
			}
			r.checkIdle()
			r.release("a", stale)
			if n := r.p.jobReport(); n.GetHolds() != n.GetHoldsDropped() || n.GetHeldBlocks() != 0 {
				t.Errorf("report %v, want nothing held", n)
			}
			r.held("b") // the slot is free again
			r.release("b", ok)
		})
	}
}

func TestACancelFreesWhatIsHeldAtOnce(t *testing.T) {
	r := newReader(t, nil)
	r.start()
	r.held("a")
	r.cancel("a")
	r.checkIdle()
	r.release("a", stale)
	r.cancel("a")
	r.cancel("b") // overtakes its call
	r.refused(request("b"), codes.Aborted)
	r.release("b", stale)
	r.held("c")
	r.release("c", ok)
	r.cancel("c") // too late
	r.release("c", ok)
	r.report("one dropped", func(r *prefillworkerv1.JobReport) bool { return r.GetHoldsDropped() == 1 && r.GetCalls() == 2 })
}

// A repetition that waits keeps the work alive when the first caller has gone.
func TestTheWorkGoesOnWhileACallerWaits(t *testing.T) {
	r := newReader(t, nil)
	g := newGate()
	r.step = g.wait
	r.start()
	ctx, leave := context.WithCancel(within(t))
	first := r.ask(ctx, request("a"))
	take(t, "a step", g.reached)
	second := r.ask(within(t), request("a"))
	r.report("a repetition", func(r *prefillworkerv1.JobReport) bool { return r.GetCallsRepeated() == 1 })
	leave()
	if a := take(t, "an answer", first); a.err == nil {
		t.Errorf("the one that left was answered %v", a)
	}
	close(g.open)
	if a := take(t, "an answer", second); a.err != nil {
		t.Fatal(a.err)
	}
	r.release("a", ok)
	r.checkIdle()
}

func TestAWorkerWithoutAFreeSlotRefuses(t *testing.T) {
	r := newReader(t, func(c *Config) { c.Calls = 1 })
	g := newGate()
	r.step = g.wait
	r.start()
	got := r.ask(within(t), request("a"))
	take(t, "a step", g.reached)
	r.refused(of("b", 9), codes.ResourceExhausted)
	close(g.open)
	if a := take(t, "an answer", got); a.err != nil || a.GetCredits() != 1 {
		t.Errorf("answer %v, want a credit", a)
	}
	r.held("b") // a refusal is not remembered as an end
	r.report("one refused", func(r *prefillworkerv1.JobReport) bool { return r.GetCallsRefused() == 1 && r.GetCalls() == 2 })
	r.release("a", ok)
	r.release("b", ok)
	r.checkIdle()
}

func TestAQuarterOfThePoolIsHeldAtMost(t *testing.T) {
	r := newReader(t, nil) // 40 blocks
	r.start()
	for i, attempt := range []string{"a", "b", "c"} { // nine blocks
		if a := take(t, "an answer", r.ask(within(t), of(attempt, sequence.Token(20+i)))); a.err != nil {
			t.Fatal(a.err)
		}
	}
	r.refused(of("d", 30), codes.ResourceExhausted)
	r.release("b", ok)
	if a := take(t, "an answer", r.ask(within(t), of("d", 30))); a.err != nil {
		t.Fatal(a.err)
	}
	r.report("nine held", func(r *prefillworkerv1.JobReport) bool {
		return r.GetHeldBlocks() == 9 && r.GetHeldBlocksHighWater() == 9
	})
	for _, attempt := range []string{"a", "c", "d"} {
		r.release(attempt, ok)
	}
	r.checkIdle()
}

func TestAPromptThatIsLongerThanThePoolIsRefused(t *testing.T) {
	r := newReader(t, func(c *Config) { c.Pool.PoolTokens = 20 * blockTokens })
	r.start()
	long := request("a")
	long.Sequence.Prompt = make([]sequence.Token, 25*blockTokens)
	r.refused(long, codes.ResourceExhausted) // to hold it would be too much
	long.AttemptId, long.FirstPosition = "b", 24*blockTokens
	r.refused(long, codes.InvalidArgument)
	r.checkIdle()
	r.held("c")
	r.release("c", ok)
}

func TestACallThatMeansAnotherIsRefused(t *testing.T) {
	r := newReader(t, nil)
	r.start()
	for name, tc := range map[string]struct {
		change func(*prefillworkerv1.PrefillRequest)
		want   codes.Code
	}{
		"life":     {func(r *prefillworkerv1.PrefillRequest) { r.PrefillIncarnation = "0" }, codes.FailedPrecondition},
		"format":   {func(r *prefillworkerv1.PrefillRequest) { r.KvFormat = "other" }, codes.FailedPrecondition},
		"style":    {func(r *prefillworkerv1.PrefillRequest) { r.Ticket = &transferv1.Ticket{} }, codes.FailedPrecondition},
		"attempt":  {func(r *prefillworkerv1.PrefillRequest) { r.AttemptId = "" }, codes.InvalidArgument},
		"prompt":   {func(r *prefillworkerv1.PrefillRequest) { r.Sequence.Prompt = nil }, codes.InvalidArgument},
		"end":      {func(r *prefillworkerv1.PrefillRequest) { r.FirstPosition = 12 }, codes.InvalidArgument},
		"position": {func(r *prefillworkerv1.PrefillRequest) { r.FirstPosition = 3 }, codes.InvalidArgument},
		"tokens":   {func(r *prefillworkerv1.PrefillRequest) { r.Sequence.Prompt = []sequence.Token{1 << 30} }, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			q := request(name)
			tc.change(q)
			r.refused(q, tc.want)
		})
	}
	for _, err := range []error{
		func() error {
			_, err := r.client.Release(within(t), &prefillworkerv1.ReleaseRequest{TransferId: "t", AttemptId: "a", PrefillIncarnation: "0"})
			return err
		}(),
		func() error {
			_, err := r.client.Cancel(within(t), &prefillworkerv1.CancelRequest{TransferId: "t", AttemptId: "a", PrefillIncarnation: "0"})
			return err
		}(),
	} {
		if rpc.Code(err) != codes.FailedPrecondition {
			t.Errorf("another life was meant: %v", err)
		}
	}
	r.checkIdle()
}

func TestAWorkerThatPushesServesNoCalls(t *testing.T) {
	h := newHarness(t, nil).start()
	if _, err := h.client().Prefill(within(t), request("a")); rpc.Code(err) != codes.FailedPrecondition {
		t.Errorf("Prefill = %v", err)
	}
}
