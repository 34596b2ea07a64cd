package handoff

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

func TestAPromptIsFetched(t *testing.T) {
	r := newAskingRig(t, worker.Pull, nil)
	h := r.holder("prefill")
	o := r.with(t.Context())()
	if o.first.PrefillWorker != "prefill" || o.first.Peer != h.agent.ID() || o.first.Work.Compute != time.Second || o.first.Work.WrittenBytes == 0 {
		t.Errorf("first %+v", o.first)
	}
	q := <-h.asked
	if q.GetDecodeWorker() != "decode" || q.GetDecodeIncarnation() != "1" || q.GetPrefillIncarnation() != "1" || q.GetKvFormat() != "toy" || q.GetTicket() != nil {
		t.Errorf("request %v", q)
	}
	if a := <-h.released; a.GetTransferId() != q.GetTransferId() || a.GetAttemptId() != q.GetAttemptId() || a.GetPrefillIncarnation() != "1" {
		t.Errorf("release %v", a)
	}
	if n := r.worker.Scheduler.Report().PromptTokens; n != 0 {
		t.Errorf("%d prompt tokens were computed here, want none", n)
	}
	// What came over is shared as what was computed here is: only the rest is fetched now.
	r.with(t.Context())()
	if q := <-h.asked; q.GetFirstPosition() != 2*blockTokens {
		t.Errorf("the second was asked for from position %d, want %d", q.GetFirstPosition(), 2*blockTokens)
	}
	r.calls(map[string]uint64{"done": 2})
	if c := r.counters(); c.GetReceivedTokens() != uint64(len(prompt)+2) || c.GetRemoteByPrefillWorker()["prefill"] != 2 || len(h.cancels) != 0 {
		t.Errorf("counters %v", c)
	}
	if n := r.worker.Pool.Counts().Now[block.Held]; n != 0 {
		t.Errorf("%d blocks are held for this worker's own reading", n)
	}
}

// What a holder did not hold until the end is never decoded from.
func TestWhatIsStaleIsNeverDecoded(t *testing.T) {
	for name, release := range map[string]func() (prefillworkerv1.ReleaseOutcome, error){
		"stale": func() (prefillworkerv1.ReleaseOutcome, error) {
			return prefillworkerv1.ReleaseOutcome_RELEASE_OUTCOME_STALE, nil
		},
		"lost": func() (prefillworkerv1.ReleaseOutcome, error) {
			return 0, status.Error(codes.Unavailable, "lost")
		},
	} {
		for _, other := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, another one %v", name, other), func(t *testing.T) {
				r := newAskingRig(t, worker.Pull, nil)
				h := r.holder("stale")
				h.prefill = func(_ context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
					a := h.hold(q)
					a.FirstTokens[0].Token++ // and what is in the blocks by now
					_ = h.toy.Step(context.Background(), toyBatch([]uint32{9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, []block.ID{7, 2, 5}))
					return a, nil
				}
				h.release = release
				if other {
					r.holder("good")
				}
				o := r.with(t.Context(), "stale")() // checks the whole answer
				<-h.cancels
				if other {
					if o.err != nil || o.first.PrefillWorker != "good" {
						t.Errorf("Prefill = %+v", o)
					}
					r.calls(map[string]uint64{"stale": 1, "done": 1})
				} else {
					r.fell(o, CauseStale)
				}
			})
		}
	}
}

func TestWorkersWithoutRoomArePassedOver(t *testing.T) {
	r := newAskingRig(t, worker.Pull, nil)
	var full []*holder
	for i := range 4 {
		h := r.holder(fmt.Sprintf("full%d", i))
		h.prefill = refuse
		full = append(full, h)
	}
	r.fell(r.with(t.Context(), "full0", "full1", "full2", "full3")(), CauseNoCredit)
	for i, h := range full {
		if n := len(h.asked); n != min(1, 3-min(3, i)) {
			t.Errorf("worker %d was asked %d times", i, n)
		}
	}
	r.calls(map[string]uint64{"no_credit": 3})
	// What said so just now comes last, whatever the hint.
	r.holder("free")
	if o := r.with(t.Context(), "full0", "full1", "full2")(); o.err != nil || o.first.PrefillWorker == "full0" {
		t.Errorf("Prefill = %+v", o)
	}
	if n := len(full[0].asked) + len(full[1].asked) + len(full[2].asked); n != 3 {
		t.Errorf("those that were full were asked %d times, want 3", n)
	}
	if len(full[0].cancels)+len(full[1].cancels)+len(full[2].cancels) != 0 {
		t.Error("a refusal was followed by a cancel")
	}
}

func TestNobodyIsLeftToAsk(t *testing.T) {
	r := newAskingRig(t, worker.Pull, nil)
	r.fell(r.with(t.Context())(), CauseNoWorker)
}

func TestACancelFreesBothSidesWhereverItComes(t *testing.T) {
	for _, at := range []string{"compute", "read", "release"} {
		t.Run(at, func(t *testing.T) {
			r := newAskingRig(t, worker.Pull, func(c *Config) { c.Proof = time.Hour })
			h := r.holder("prefill")
			reached := make(chan struct{}, 1)
			ctx, cancel := context.WithCancel(t.Context())
			switch at {
			case "compute":
				h.prefill = func(ctx context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
					reached <- struct{}{}
					return hang(ctx, q)
				}
			case "read":
				reached = r.holdReads(false).reached // until the transfer is cancelled
			case "release":
				h.release = func() (prefillworkerv1.ReleaseOutcome, error) {
					reached <- struct{}{}
					<-ctx.Done()
					return 0, status.FromContextError(ctx.Err()).Err()
				}
			}
			wait := r.with(ctx)
			<-reached
			cancel()
			r.fell(wait(), CauseCancel)
			q := <-h.asked
			if c := <-h.cancels; c.GetTransferId() != q.GetTransferId() || c.GetAttemptId() != q.GetAttemptId() || c.GetPrefillIncarnation() != "1" {
				t.Errorf("cancel %v, want of %v", c, q)
			}
			if c := r.counters(); c.GetCancelled() != 1 {
				t.Errorf("counters %v, want one cancel", c)
			}
			if n := r.InFlight(); n != 0 {
				t.Errorf("%d calls are under way", n)
			}
		})
	}
}

// A read whose end its transport cannot tell may still write into its blocks.
func TestTheBlocksOfAReadThatDoesNotEndStayInQuarantine(t *testing.T) {
	r := newAskingRig(t, worker.Pull, func(c *Config) { c.Deadline, c.PerToken, c.Proof = 30*time.Millisecond, 0, time.Millisecond })
	r.holder("prefill")
	g := r.holdReads(true)
	q, s := r.admit()
	o := <-r.prefill(t.Context(), q)
	r.fell(o, CauseDeadline)
	if n := r.worker.Pool.Counts().Now[block.Quarantine]; n != 3 {
		t.Errorf("%d blocks are in quarantine, want 3", n)
	}
	for range 4 { // sweeps ask for no proof and find none
		r.sweepSoon()
		r.settleReads()
	}
	if n := r.worker.Pool.Counts().Now[block.Quarantine]; n != 3 {
		t.Errorf("%d blocks are in quarantine after a sweep, want 3", n)
	}
	if len(r.aborts) != 0 {
		t.Error("somebody was asked for this worker's own word")
	}
	close(g.open)
	r.fallBack(q, s, o, CauseDeadline) // and checks that all blocks come back
	r.eventually("it is counted", func() bool { return r.counters().GetQuarantineSettledByWord() == 1 })
}

func TestAHolderThatIsGoneIsReplaced(t *testing.T) {
	for _, at := range []string{"compute", "read"} {
		t.Run(at, func(t *testing.T) {
			r := newAskingRig(t, worker.Pull, nil)
			lost := r.holder("lost")
			reached := make(chan struct{}, 1)
			var once sync.Once
			if at == "compute" {
				lost.prefill = func(ctx context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
					reached <- struct{}{}
					return hang(ctx, q)
				}
			} else {
				gone := make(chan struct{})
				r.agent.create = func(q nixl.Request, transfer nixl.Transfer) nixl.Transfer {
					once.Do(func() { transfer = postedLate{transfer, reached, gone} })
					return transfer
				}
				defer func() { <-gone }()
				go func() { <-reached; lost.close(); close(gone) }()
			}
			r.holder("other")
			wait := r.with(t.Context(), "lost")
			if at == "compute" {
				<-reached
				lost.close()
			}
			if o := wait(); o.err != nil || o.first.PrefillWorker != "other" {
				t.Errorf("Prefill = %+v", o)
			}
			cause := map[string]string{"compute": "prefill", "read": "read"}[at]
			r.calls(map[string]uint64{cause: 1, "done": 1})
		})
	}
}

// postedLate is posted once its peer is gone.
type postedLate struct {
	nixl.Transfer
	reached, gone chan struct{}
}

func (p postedLate) Post(ctx context.Context) error {
	p.reached <- struct{}{}
	<-p.gone
	return p.Transfer.Post(ctx)
}

func TestAnAnswerThatDoesNotFitIsNotRead(t *testing.T) {
	for name, change := range map[string]func(*prefillworkerv1.PrefillResponse){
		"start":  func(a *prefillworkerv1.PrefillResponse) { a.FirstPosition = 4 },
		"end":    func(a *prefillworkerv1.PrefillResponse) { a.EndPosition++ },
		"blocks": func(a *prefillworkerv1.PrefillResponse) { a.Blocks.Blocks = a.Blocks.Blocks[:2] },
		"tokens": func(a *prefillworkerv1.PrefillResponse) { a.FirstTokens = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newAskingRig(t, worker.Pull, nil)
			h := r.holder("prefill")
			h.prefill = func(_ context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
				a := h.hold(q)
				change(a)
				return a, nil
			}
			r.fell(r.with(t.Context())(), CausePrefill)
			<-h.cancels
			if n := r.agent.Stats().BytesRead; n != 0 {
				t.Errorf("%d bytes were read", n)
			}
		})
	}
}

func TestAnotherLifeOfAPrefillWorkerIsNotRead(t *testing.T) {
	t.Run("its metadata", func(t *testing.T) {
		r := newAskingRig(t, worker.Pull, nil)
		h := r.holder("prefill")
		r.live[0].Incarnation = "0"
		r.fell(r.with(t.Context())(), CauseUnreachable)
		if len(h.asked) != 0 {
			t.Error("it was asked all the same")
		}
	})
	t.Run("its word", func(t *testing.T) {
		r := newAskingRig(t, worker.Pull, nil)
		h := r.holder("prefill")
		h.prefill = func(context.Context, *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
			return nil, rpc.FailedPrecondition("incarnation", "another life")
		}
		r.fell(r.with(t.Context())(), CausePrefill)
	})
	t.Run("no transport in common", func(t *testing.T) {
		r := newAskingRig(t, worker.Pull, nil)
		r.holder("prefill")
		r.live[0].Transfer = nil
		r.fell(r.with(t.Context())(), CauseUnreachable)
	})
}

func TestTheDeadlineOfAPullMeansHere(t *testing.T) {
	r := newAskingRig(t, worker.Pull, func(c *Config) { c.Deadline, c.PerToken = 30*time.Millisecond, 0 })
	h := r.holder("prefill")
	h.prefill = hang
	r.holder("other").prefill = hang
	r.fell(r.with(t.Context(), "prefill")(), CauseDeadline)
	<-h.cancels
	if c := r.counters(); c.GetDeadlinePassed() != 1 {
		t.Errorf("counters %v", c)
	}
}

func TestCallsEndWithTheCoordinator(t *testing.T) {
	r := newAskingRig(t, worker.Pull, nil)
	r.closing = true
	r.holder("prefill")
	r.fell(r.with(t.Context())(), CausePrefill)
}
