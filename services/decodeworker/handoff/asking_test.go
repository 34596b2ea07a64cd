package handoff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

var decodeID = nixl.PeerID{Name: "decode", Incarnation: "1"}

// agent lets a test stand in the way of the transport.
type agent struct {
	nixl.Agent
	create func(nixl.Request, nixl.Transfer) nixl.Transfer // set before the first transfer
}

func (a *agent) Create(r nixl.Request) (nixl.Transfer, error) {
	transfer, err := a.Agent.Create(r)
	if err == nil && a.create != nil {
		transfer = a.create(r, transfer)
	}
	return transfer, err
}

// askingRig is a coordinator that asks the prefill workers which a test plays.
type askingRig struct {
	*rig
	agent *agent

	mu      sync.Mutex
	live    []*instancev1.Instance
	holders map[string]*holder // by address
}

func newAskingRig(t *testing.T, style worker.Style, change func(*Config)) *askingRig {
	t.Helper()
	r := &askingRig{agent: &agent{}, holders: make(map[string]*holder)}
	r.rig = openRig(t, 40, 150, change, func(a nixl.Agent) nixl.Agent {
		r.agent.Agent = nixltest.Unproven{Agent: a}
		return r.agent
	}, func(d *Deps) {
		d.Style = style
		d.PrefillWorkers = func() []*instancev1.Instance {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(r.live)
		}
		d.Client = func(address string) (prefillworkerv1.PrefillWorkerClient, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if h := r.holders[address]; h != nil {
				return h, nil
			}
			return nil, fmt.Errorf("nobody is at %q", address)
		}
	})
	return r
}

// holder is a prefill worker that is asked.
type holder struct {
	prefillworkerv1.PrefillWorkerClient // Describe is not called
	*peer
	r *askingRig

	// Set before it is asked.
	prefill func(ctx context.Context, r *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error)
	release func() (prefillworkerv1.ReleaseOutcome, error)
	credits atomic.Uint32

	asked    chan *prefillworkerv1.PrefillRequest
	released chan *prefillworkerv1.ReleaseRequest
	cancels  chan *prefillworkerv1.CancelRequest
	grants   atomic.Uint64
}

// holder adds a prefill worker to the members.
func (r *askingRig) holder(name string) *holder {
	r.t.Helper()
	h := &holder{
		peer: r.peer(name), r: r,
		asked: make(chan *prefillworkerv1.PrefillRequest, 16), released: make(chan *prefillworkerv1.ReleaseRequest, 16),
		cancels: make(chan *prefillworkerv1.CancelRequest, 16),
		release: func() (prefillworkerv1.ReleaseOutcome, error) {
			return prefillworkerv1.ReleaseOutcome_RELEASE_OUTCOME_OK, nil
		},
	}
	h.credits.Store(2)
	h.prefill = func(_ context.Context, q *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
		return h.hold(q), nil
	}
	metadata, err := h.agent.Metadata()
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holders[name] = h
	r.live = append(r.live, &instancev1.Instance{
		Id: name, Incarnation: "1", Address: name,
		Transfer: []*instancev1.TransferEndpoint{{Transport: worker.InProc, Metadata: metadata}},
	})
	return h
}

// hold computes the prompt and lets the decode worker read it.
func (h *holder) hold(q *prefillworkerv1.PrefillRequest) *prefillworkerv1.PrefillResponse {
	local := []block.ID{7, 2, 5}
	if err := h.toy.Step(context.Background(), toyBatch(q.GetSequence().GetPrompt(), local)); err != nil {
		h.r.t.Error(err)
	}
	var refs []block.Ref
	for _, b := range local[q.GetFirstPosition()/blockTokens:] {
		refs = append(refs, block.Ref{ID: b, Generation: 9})
	}
	grant := h.grants.Add(1)
	if err := h.agent.Allow(decodeID, nixl.Grant{Number: grant, Op: nixl.Read, Blocks: refs}); err != nil {
		h.r.t.Error(err)
	}
	return &prefillworkerv1.PrefillResponse{
		FirstTokens: []*transferv1.FirstToken{{Token: enginetest.ToyAnswer(prompt, 1)[0], Logprobs: h.probs}},
		Blocks:      worker.BlockRefs(refs), Grant: grant, Hold: durationpb.New(time.Minute),
		FirstPosition: q.GetFirstPosition(), EndPosition: uint32(len(prompt)),
		ComputedTokens: 7, OwnHitTokens: 3, ComputeTime: durationpb.New(time.Second), Credits: h.credits.Load(),
	}
}

func (h *holder) Prefill(ctx context.Context, q *prefillworkerv1.PrefillRequest, _ ...grpc.CallOption) (*prefillworkerv1.PrefillResponse, error) {
	h.asked <- q
	return h.prefill(ctx, q)
}

func (h *holder) Release(_ context.Context, q *prefillworkerv1.ReleaseRequest, _ ...grpc.CallOption) (*prefillworkerv1.ReleaseResponse, error) {
	outcome, err := h.release()
	h.released <- q
	return &prefillworkerv1.ReleaseResponse{Outcome: outcome}, err
}

func (h *holder) Cancel(_ context.Context, q *prefillworkerv1.CancelRequest, _ ...grpc.CallOption) (*prefillworkerv1.CancelResponse, error) {
	h.cancels <- q
	return &prefillworkerv1.CancelResponse{}, nil
}

// held is a transfer whose end does not show until its gate opens.
type held struct {
	nixl.Transfer
	reached   chan struct{}
	open      chan struct{}
	unsettled bool // not even then by Wait, nor before by Release
}

func (h held) Wait(ctx context.Context) error {
	select {
	case h.reached <- struct{}{}:
	default:
	}
	if h.unsettled {
		<-ctx.Done()
		return &nixl.UnsettledError{Cause: ctx.Err()}
	}
	select {
	case <-h.open:
		return h.Transfer.Wait(ctx)
	case <-ctx.Done():
		return &nixl.UnsettledError{Cause: ctx.Err()}
	}
}

// Cancel ends what is not beyond that.
func (h held) Cancel() {
	h.Transfer.Cancel()
	if !h.unsettled {
		close(h.open)
	}
}

func (h held) Release() error {
	select {
	case <-h.open:
	default:
		return nixl.ErrInProgress
	}
	if err := h.Transfer.Wait(context.Background()); err != nil && !errors.Is(err, nixl.ErrAborted) {
		return err
	}
	return h.Transfer.Release()
}

func (r *askingRig) holdReads(unsettled bool) held {
	h := held{reached: make(chan struct{}, 1), open: make(chan struct{}), unsettled: unsettled}
	r.agent.create = func(q nixl.Request, transfer nixl.Transfer) nixl.Transfer {
		if q.Op == nixl.Read {
			return held{transfer, h.reached, h.open, unsettled}
		}
		return transfer
	}
	return h
}

func refuse(context.Context, *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
	return nil, rpc.ResourceExhausted("no slot", 0)
}

// hang answers when nobody waits any more.
func hang(ctx context.Context, _ *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// eventually waits for what no event announces.
func (r *askingRig) eventually(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			r.t.Fatalf("%s: not within 10 s", what)
		}
	}
}

func (r *askingRig) calls(want map[string]uint64) {
	r.t.Helper()
	got := r.counters().GetPrefillCalls()
	for _, outcome := range []string{"done", "stale", "read", "no_credit", "unreachable", "prefill", "blocks"} {
		if got[outcome] != want[outcome] {
			r.t.Errorf("calls %v, want %v", got, want)
			return
		}
	}
}

// with asks with a hint, so that the order of the candidates is known.
func (r *askingRig) with(ctx context.Context, hint ...string) func() outcome {
	q, s := r.admit()
	out := r.prefillBy(ctx, q, hint...)
	return func() outcome {
		r.t.Helper()
		o := <-out
		if o.err == nil {
			r.finish(q, s, o)
			return o
		}
		var f *FallBack
		if !errors.As(o.err, &f) {
			r.t.Fatal(o.err)
		}
		r.fallBack(q, s, o, f.Cause)
		return o
	}
}

func (r *askingRig) fell(o outcome, want Cause) {
	r.t.Helper()
	var f *FallBack
	if !errors.As(o.err, &f) || f.Cause != want {
		r.t.Errorf("Prefill = %v, want a fallback by %s", o.err, want)
	}
}

func (r *askingRig) prefillBy(ctx context.Context, q *scheduler.Sequence, hint ...string) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		first, err := r.Prefill(ctx, q, &generationv1.Sequence{Prompt: prompt, MaxTokens: 6, PrefillHint: hint, Logprobs: r.top})
		out <- outcome{first, err}
	}()
	return out
}
