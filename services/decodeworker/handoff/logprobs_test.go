package handoff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

var (
	toldProbs = &generationv1.LogProbs{Logprob: -1.5, TopTokens: []uint32{4, 9}, TopLogprobs: []float32{-0.5, -1.5}}
	wantProbs = sequence.LogProbs{LogProb: -1.5, Top: []sequence.TokenLogProb{{Token: 4, LogProb: -0.5}, {Token: 9, LogProb: -1.5}}}
)

func TestLogProbsComeWithTheFirstToken(t *testing.T) {
	t.Run("push", func(t *testing.T) {
		r := newRig(t, nil)
		r.top = proto.Uint32(2)
		q, s := r.admit()
		got := r.prefill(t.Context(), q)
		job, p := <-r.queue.arrived, r.peer("prefill")
		p.probs = toldProbs
		ticket := p.ticket(job, "a")
		if err := p.write(ticket); err != nil {
			t.Fatal(err)
		}
		if o := p.note(job, ticket); o != transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED {
			t.Errorf("the note was answered %v", o)
		}
		r.finish(q, s, <-got)
		if diff := cmp.Diff(wantProbs, s.probs[0]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	for _, style := range []worker.Style{worker.Pull, worker.Rendezvous} {
		t.Run(string(style), func(t *testing.T) {
			r := newAskingRig(t, style, nil)
			r.top = proto.Uint32(2)
			h := r.holder("prefill")
			h.probs = toldProbs
			var outcomes <-chan transferv1.NoteOutcome
			if style == worker.Rendezvous {
				outcomes = h.delivers()
			}
			o := r.with(t.Context())()
			if outcomes != nil {
				committed(t, outcomes)
			}
			if o.err != nil || o.first.LogProbs == nil {
				t.Fatalf("Prefill = %+v", o)
			}
			if diff := cmp.Diff(wantProbs, *o.first.LogProbs); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A prefill worker that cannot tell them is no reason to answer without.
func TestAFirstTokenWithoutTheLogProbsAskedForFallsBack(t *testing.T) {
	t.Run("push", func(t *testing.T) {
		r := newRig(t, nil)
		r.top = proto.Uint32(0)
		q, s := r.admit()
		got := r.prefill(t.Context(), q)
		job, p := <-r.queue.arrived, r.peer("prefill")
		ticket := p.ticket(job, "a")
		if err := p.write(ticket); err != nil {
			t.Fatal(err)
		}
		if o := p.note(job, ticket); o != transferv1.NoteOutcome_NOTE_OUTCOME_STALE {
			t.Errorf("the note was answered %v", o)
		}
		o := <-got
		r.fallBack(q, s, o, CausePrefill)
		if !strings.Contains(o.err.Error(), errNoLogProbs.Error()) {
			t.Errorf("Prefill = %v, want %v", o.err, errNoLogProbs)
		}
	})
	t.Run("pull", func(t *testing.T) {
		r := newAskingRig(t, worker.Pull, nil)
		r.top = proto.Uint32(0)
		h := r.holder("prefill")
		r.fell(r.with(t.Context())(), CausePrefill)
		<-h.cancels
		if n := r.agent.Stats().BytesRead; n != 0 {
			t.Errorf("%d bytes were read", n)
		}
	})
	t.Run("rendezvous", func(t *testing.T) {
		r := newAskingRig(t, worker.Rendezvous, nil)
		r.top = proto.Uint32(0)
		outcomes := r.holder("prefill").delivers()
		r.fell(r.with(t.Context())(), CausePrefill)
		if o := <-outcomes; o != transferv1.NoteOutcome_NOTE_OUTCOME_STALE {
			t.Errorf("the note was answered %v", o)
		}
	})
}
