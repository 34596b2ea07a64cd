package handoff

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/sampling"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

func TestAJobThatNobodyIsLeftToTakeMeansHere(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Deadline = time.Hour })
	q, s := r.admit()
	got := r.prefill(t.Context(), q)
	<-r.queue.arrived
	r.alive.Store(0)
	r.fallBack(q, s, <-got, CauseNoWorker)
}

// While a claim is being answered its blocks are filled with NaN: nobody may be given them.
func TestBlocksAreNotGivenAwayWhileTheirClaimIsAnswered(t *testing.T) {
	for name, give := range map[string]func(r *rig, id block.TransferID, cancel func()){
		"the writer's word": func(r *rig, id block.TransferID, _ func()) {
			_, err := r.Abandon(r.t.Context(), &decodeworkerv1.AbandonClaimRequest{TransferId: string(id), AttemptId: "a"})
			if err != nil {
				r.t.Error(err)
			}
		},
		"a cancel": func(_ *rig, _ block.TransferID, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			q, s := r.admit()
			ctx, cancel := context.WithCancel(t.Context())
			got := r.prefill(ctx, q)
			job := <-r.queue.arrived
			r.peer("prefill").ticket(job, "a")
			claimed := r.worker.Pool.Counts().Now[block.Claimed]
			transfer := r.find(block.TransferID(job.GetTransferId()))
			transfer.claim.Lock() // as Claim holds it
			given := make(chan struct{})
			go func() { defer close(given); give(r, transfer.id, cancel) }()
			select {
			case <-r.aborts:
			case <-got:
			case <-time.After(50 * time.Millisecond): // a wait that is long enough to be seen to end
			}
			if n := r.worker.Pool.Counts().Now[block.Claimed]; n != claimed {
				t.Errorf("%d blocks are claimed while the claim is answered, want %d", n, claimed)
			}
			transfer.claim.Unlock()
			<-given
			cancel()
			r.fallBack(q, s, <-got, CauseCancel)
		})
	}
}

// One that leaves finishes what it has taken.
func TestAClaimedJobIsWaitedForWhenItsWorkerLeaves(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Deadline = time.Hour })
	q, s := r.admit()
	got := r.prefill(t.Context(), q)
	job := <-r.queue.arrived
	p := r.peer("prefill")
	ticket := p.ticket(job, "a")
	r.alive.Store(0)
	for range 4 {
		<-r.looked
	}
	if err := p.write(ticket); err != nil {
		t.Fatal(err)
	}
	p.note(job, ticket)
	r.finish(q, s, <-got)
}

// A caller that is gone counts as a cancel, wherever the transfer met it.
func TestACancelDuringThePublishCountsAsCancel(t *testing.T) {
	r := newRig(t, nil)
	r.queue.fail = context.Canceled
	q, s := r.admit()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.fallBack(q, s, <-r.prefill(ctx, q), CauseCancel)
	if c := r.counters(); c.GetCancelled() != 1 {
		t.Errorf("counters %v, want one cancel", c)
	}
}

// The blocks of a hold whose reader never released it come back by time. A sequence that
// waits for them hears of it.
func TestASequenceThatWaitsForHeldBlocksIsAdmittedOnceTheHoldEnds(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Lease = 100 * time.Millisecond })
	warm, s := r.admit() // fills the cache with the prompt's two full blocks
	if err := warm.Start(); err != nil {
		t.Fatal(err)
	}
	<-s.done
	q, s := r.admit()
	got := r.prefill(t.Context(), q)
	job := <-r.queue.arrived
	p := r.peer("prefill")
	ticket := p.ticket(job, "a")
	if n := len(ticket.GetPrefix().GetBlocks()); n != 2 {
		t.Fatalf("%d prefix blocks are held, want 2", n)
	}
	if err := p.write(ticket); err != nil {
		t.Fatal(err)
	}
	p.note(job, ticket)
	r.finishUnchecked(q, s, <-got)
	// Five blocks and 35 are all there are, and two of them are held.
	filler := r.submit([]sequence.Token{1}, 5*blockTokens)
	defer filler.Cancel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := filler.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	big := r.submit(make([]sequence.Token, 100), 40)
	if err := big.Wait(ctx); err != nil {
		t.Fatalf("the sequence that needs the held blocks: %v", err)
	}
	big.Cancel()
}

func (r *rig) submit(prompt []sequence.Token, maxTokens int) *scheduler.Sequence {
	r.t.Helper()
	q, err := r.worker.Scheduler.Submit(sequence.Spec{Prompt: prompt, MaxTokens: maxTokens}, &sink{done: make(chan struct{})}, r.worker.Options("other"))
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

// The note names every block: beyond what it can hold, the prompt is computed here at once
// rather than elsewhere in vain.
func TestAPromptWithTooManyBlocksForANoteIsComputedHere(t *testing.T) {
	const tokens = (blocksMax + 1) * blockTokens
	r := newSizedRig(t, blocksMax+10, tokens+10, nil)
	q := r.submit(make([]sequence.Token, tokens), 1)
	defer q.Cancel()
	if err := q.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	var f *FallBack
	if o := <-r.prefill(t.Context(), q); !errors.As(o.err, &f) || f.Cause != CauseReserve {
		t.Errorf("Prefill = %v, want a fallback by %s", o.err, CauseReserve)
	}
}

func TestANoteOfTheMostBlocksFits(t *testing.T) {
	refs := make([]block.Ref, blocksMax)
	for i := range refs {
		refs[i] = block.Ref{ID: 1<<28 - 1, Generation: 1<<42 - 1}
	}
	note := &transferv1.CompletionNote{
		TransferId: strings.Repeat("x", 1000), AttemptId: strings.Repeat("x", 1000), Blocks: worker.BlockRefs(refs),
		FirstTokens: []*transferv1.FirstToken{{Token: math.MaxUint32, Logprobs: &generationv1.LogProbs{
			Logprob: -1, TopTokens: slices.Repeat([]uint32{math.MaxUint32}, sampling.MaxTopLogProbs), TopLogprobs: make([]float32, sampling.MaxTopLogProbs),
		}}},
	}
	if n := proto.Size(note); n > nixl.MaxNoteBytes {
		t.Errorf("a note of %d blocks has %d bytes, want at most %d", blocksMax, n, nixl.MaxNoteBytes)
	}
}

func (r *rig) finishUnchecked(q *scheduler.Sequence, s *sink, o outcome) {
	r.t.Helper()
	if o.err != nil {
		r.t.Fatal(o.err)
	}
	if err := q.Attach(o.first.Token, o.first.LogProbs, o.first.Finish); err != nil {
		r.t.Fatal(err)
	}
	<-s.done
}
