package prefillworker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// inSteps makes the worker compute a prompt in steps of one block, each of which waits.
func inSteps(t *testing.T) (*harness, gate) {
	h := newHarness(t, func(c *Config) { c.Pool.StepTokens, c.Pool.RunningMax = blockTokens, 2 })
	g := gate{make(chan struct{}, 64), make(chan struct{}, 64)}
	h.step = func(ctx context.Context) error {
		g.reached <- struct{}{}
		select {
		case <-g.open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h, g
}

func (h *harness) written(want uint64) {
	h.t.Helper()
	h.eventually("the bytes have landed", func() bool { return h.agent.Stats().BytesWritten == want },
		func() any { return h.agent.Stats() })
}

func TestRowsAreWrittenWhileTheRestIsComputed(t *testing.T) {
	h, g := inSteps(t)
	h.start()
	h.publish(nil)
	block := uint64(h.worker.Layout().BlockBytes())
	for step := range uint64(3) {
		take(t, "a step", g.reached)
		h.written(step * block)
		g.open <- struct{}{}
	}
	n := h.decode.answerNote(committed)
	h.checkWritten(prompt, n.GetFirstTokens()[0].GetToken())
	if rows := uint64(len(prompt) * h.worker.Layout().RowBytes()); n.GetWrittenBytes() != rows || h.agent.Stats().BytesWritten != rows {
		t.Errorf("%d bytes by the note, %d by the agent, want %d", n.GetWrittenBytes(), h.agent.Stats().BytesWritten, rows)
	}
	if n.GetTransferTime().AsDuration() <= 0 || n.GetComputeTime().AsDuration() <= 0 || n.GetAdmitTime().AsDuration() <= 0 {
		t.Errorf("the note lacks a time: %v", n)
	}
	h.acknowledged()
	h.checkIdle()
}

func TestAnAbortInTheMiddleStopsTheWrites(t *testing.T) {
	h, g := inSteps(t)
	var atNextClaim uint64 // the attempt after it writes at once what is resident
	claims := h.decode.claim
	h.decode.claim = func(n int, r *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error) {
		atNextClaim = h.agent.Stats().BytesWritten
		return claims(n, r)
	}
	h.start()
	h.publish(nil)
	claim := take(t, "a claim", h.decode.claims)
	take(t, "a step", g.reached)
	g.open <- struct{}{}
	take(t, "the second step", g.reached) // the first block is written meanwhile
	h.written(uint64(h.worker.Layout().BlockBytes()))
	if err := take(t, "the word", h.abort(claim.GetAttemptId(), claim.GetTransferId())); err != nil {
		t.Fatal(err)
	}
	before := h.agent.Stats().BytesWritten
	g.open <- struct{}{} // the step that ran on is written nowhere
	again := take(t, "a claim", h.decode.claims)
	if again.GetAttemptId() == claim.GetAttemptId() || atNextClaim != before {
		t.Errorf("attempt %s, %d bytes after the word", again.GetAttemptId(), atNextClaim-before)
	}
	for range 3 {
		g.open <- struct{}{}
	}
	h.decode.answerNote(committed)
	h.acknowledged()
	h.checkIdle()
}

// TestLayersThatBecomeReadyInTheMiddleOfALookAreWritten has the computation end while the
// first layer's transfer is being made.
func TestLayersThatBecomeReadyInTheMiddleOfALookAreWritten(t *testing.T) {
	h := newHarness(t, nil)
	h.start()
	ctx := within(t)
	peer, err := h.worker.Meet(ctx, h.decode.instance)
	if err != nil {
		t.Fatal(err)
	}
	ticket := h.decode.ticket(0).GetTicket()
	if err := h.decode.allow(h.agent.ID(), ticket); err != nil {
		t.Fatal(err)
	}
	q, err := h.worker.Scheduler.Submit(worker.Spec(spec()), &result{done: make(chan struct{})}, scheduler.Options{PromptOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(q.Wait(ctx), q.Table().Extend(len(prompt))); err != nil {
		t.Fatal(err)
	}
	task := &task{p: h.p, a: h.p.begin(ctx, "t"), peer: peer, ticket: ticket, q: q}
	o := task.newOutlet()
	h.agent.posted = func(_ nixl.Op, transfer nixl.Transfer) nixl.Transfer {
		o.allPlaced(len(prompt), true)
		return transfer
	}
	o.placed(0, 0, blockTokens)
	if err := o.run(ctx); err != nil {
		t.Fatal(err)
	}
	if want := uint64(len(prompt) * h.worker.Layout().RowBytes()); h.agent.Stats().BytesWritten != want {
		t.Errorf("%d bytes were written, want %d", h.agent.Stats().BytesWritten, want)
	}
	task.a.stopWriting()
	h.p.finish(task.a)
	q.Cancel()
	q.Release()
}

// doubtful is a transfer whose end its transport cannot tell until it may.
type doubtful struct {
	nixl.Transfer
	settled *atomic.Bool
}

func (d doubtful) Wait(ctx context.Context) error {
	if err := d.Transfer.Wait(ctx); err != nil || d.settled.Load() {
		return err
	}
	return &nixl.UnsettledError{Cause: nixl.ErrGone}
}

func (d doubtful) Release() error {
	if !d.settled.Load() {
		return nixl.ErrInProgress
	}
	return d.Transfer.Release()
}

func TestNoWordIsGivenForATransferInDoubt(t *testing.T) {
	h := newHarness(t, nil)
	var settled atomic.Bool
	var doubted atomic.Int32
	h.agent.posted = func(op nixl.Op, transfer nixl.Transfer) nixl.Transfer {
		if op == nixl.Write && doubted.Add(1) == 1 {
			return doubtful{transfer, &settled}
		}
		return transfer
	}
	h.start()
	h.publish(nil)
	claim := take(t, "a claim", h.decode.claims)
	h.decode.answerNote(committed) // of the second attempt
	h.acknowledged()
	r := &prefillworkerv1.AbortRequest{TransferId: claim.GetTransferId(), AttemptId: claim.GetAttemptId(), PrefillIncarnation: "1"}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.client().Abort(short, r); rpc.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the abort was answered (%v) while bytes may be on their way", err)
	}
	if len(h.decode.abandoned) != 0 {
		t.Error("the claim was given back while bytes may be on their way")
	}
	word := h.abort(claim.GetAttemptId(), claim.GetTransferId())
	settled.Store(true)
	if err := take(t, "the word", word); err != nil {
		t.Error(err)
	}
	h.report("one commit", func(r *prefillworkerv1.JobReport) bool { return r.GetCommitted() == 1 })
	h.checkIdle()
}
