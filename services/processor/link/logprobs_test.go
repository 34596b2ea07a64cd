package link_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor/link"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

func probs(logprob float32) *generationv1.LogProbs {
	return &generationv1.LogProbs{Logprob: logprob, TopTokens: []uint32{7}, TopLogprobs: []float32{-0.5}}
}

// asking submits one sequence that asks for log-probabilities and one that does not, to a worker
// that sends each batch once both are there.
func asking(t *testing.T, batch func(asks, plain uint32) []*decodeworkerv1.StepBatch) (asks, plain *link.Sequence, w *workertest.Worker) {
	t.Helper()
	ids := make(chan uint32, 2)
	w = workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		ids <- sub.GetSequenceId()
		if sub.GetBooking() == 2 {
			first, second := <-ids, <-ids
			if second != sub.GetSequenceId() {
				first, second = second, first
			}
			for _, b := range batch(first, second) {
				s.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Batch{Batch: b}})
			}
		}
		<-ctx.Done()
	})
	l, _ := attach(t, w)
	sub := submission(1, 3)
	sub.Sequence.Logprobs = proto.Uint32(1)
	asks, plain = l.Submit(sub), l.Submit(submission(2, 3))
	t.Cleanup(func() { asks.Close(""); plain.Close("") })
	return asks, plain, w
}

// everything takes a sequence to its end, or an error.
func everything(t *testing.T, q *link.Sequence) (all link.Taken, err error) {
	t.Helper()
	for all.End == nil {
		got, err := q.Take(t.Context(), nil)
		if err != nil {
			return all, err
		}
		all.Tokens, all.LogProbs, all.End = append(all.Tokens, got.Tokens...), append(all.LogProbs, got.LogProbs...), got.End
	}
	return all, nil
}

func TestLogProbsStayWithTheirTokens(t *testing.T) {
	length := generationv1.FinishReason_FINISH_REASON_LENGTH
	a, p, _ := asking(t, func(asks, plain uint32) []*decodeworkerv1.StepBatch {
		return []*decodeworkerv1.StepBatch{{
			SequenceIds: []uint32{plain, asks, plain}, Tokens: []uint32{10, 20, 11},
			Logprobs: []*decodeworkerv1.EntryLogProbs{{Entry: 1, Logprobs: probs(-1)}},
		}, {
			SequenceIds: []uint32{asks, plain, asks, 999}, Tokens: []uint32{21, 12, 22, 1},
			Logprobs: []*decodeworkerv1.EntryLogProbs{{Logprobs: probs(-2)}, {Entry: 1, Logprobs: probs(-9)}, {Entry: 2, Logprobs: probs(-3)}, {Entry: 3}},
			Ended:    []*decodeworkerv1.Ended{{SequenceId: asks, Reason: length}, {SequenceId: plain, Reason: length}},
		}}
	})
	got, err := everything(t, a)
	want := []*generationv1.LogProbs{probs(-1), probs(-2), probs(-3)}
	if diff := cmp.Diff(want, got.LogProbs, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v, log-probabilities (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]uint32{20, 21, 22}, got.Tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if got, err := everything(t, p); err != nil || got.LogProbs != nil || len(got.Tokens) != 3 {
		t.Errorf("the sequence that does not ask got %v, %v", got, err)
	}
}

func TestATokenWithoutItsLogProbEndsTheSequenceAlone(t *testing.T) {
	length := generationv1.FinishReason_FINISH_REASON_LENGTH
	uneven := probs(-1)
	uneven.TopTokens = nil
	for name, c := range map[string]struct {
		told  *decodeworkerv1.EntryLogProbs
		ended bool
		want  string
	}{
		"none":             {nil, false, "without its log-probability"},
		"none, at the end": {nil, true, "without its log-probability"},
		"an empty one":     {&decodeworkerv1.EntryLogProbs{Entry: 2}, false, "without its log-probability"},
		"uneven columns":   {&decodeworkerv1.EntryLogProbs{Entry: 2, Logprobs: uneven}, false, "differ in number"},
	} {
		t.Run(name, func(t *testing.T) {
			a, p, w := asking(t, func(asks, plain uint32) []*decodeworkerv1.StepBatch {
				b := &decodeworkerv1.StepBatch{
					SequenceIds: []uint32{asks, plain, asks}, Tokens: []uint32{20, 10, 21},
					Logprobs: []*decodeworkerv1.EntryLogProbs{{Logprobs: probs(-1)}},
					Ended:    []*decodeworkerv1.Ended{{SequenceId: plain, Reason: length}},
				}
				if c.told != nil {
					b.Logprobs = append(b.Logprobs, c.told)
				}
				if c.ended {
					b.Ended = append(b.Ended, &decodeworkerv1.Ended{SequenceId: asks, Reason: length})
				}
				return []*decodeworkerv1.StepBatch{b}
			})
			got, err := everything(t, a)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(got.Tokens) != 1 || len(got.LogProbs) != 1 {
				t.Errorf("%v, %v; want one token and an error: %s", got, err, c.want)
			}
			if got, err := everything(t, p); err != nil || len(got.Tokens) != 1 {
				t.Errorf("the other sequence got %v, %v", got, err)
			}
			if c.ended {
				return
			}
			for range 3 { // the hello and two submits
				next(t, w)
			}
			if m := next(t, w); m.GetCancel() == nil {
				t.Errorf("the worker received %v, want a cancel", m)
			}
		})
	}
}

func TestLogProbsOfNoEntryEndTheStream(t *testing.T) {
	for name, entries := range map[string][]uint32{"beyond": {2}, "twice": {0, 0}, "falling": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			a, p, _ := asking(t, func(asks, plain uint32) []*decodeworkerv1.StepBatch {
				b := &decodeworkerv1.StepBatch{SequenceIds: []uint32{asks, asks}, Tokens: []uint32{20, 21}}
				for _, e := range entries {
					b.Logprobs = append(b.Logprobs, &decodeworkerv1.EntryLogProbs{Entry: e, Logprobs: probs(-1)})
				}
				return []*decodeworkerv1.StepBatch{b}
			})
			for _, q := range []*link.Sequence{a, p} {
				got, err := everything(t, q)
				if broken := (*link.BrokenError)(nil); !errors.As(err, &broken) || !strings.Contains(err.Error(), "log-probabilities for entry") || len(got.Tokens) != 0 {
					t.Errorf("%v, %v; want no token and a broken stream", got, err)
				}
			}
		})
	}
}

func TestEachTakeHasTheLogProbsOfItsOwnTokens(t *testing.T) {
	more := make(chan float32)
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		for p := range more {
			s.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Batch{Batch: &decodeworkerv1.StepBatch{
				SequenceIds: []uint32{sub.GetSequenceId()}, Tokens: []uint32{7}, Logprobs: []*decodeworkerv1.EntryLogProbs{{Logprobs: probs(p)}},
			}}})
		}
	})
	l, _ := attach(t, w)
	sub := submission(1, 9)
	sub.Sequence.Logprobs = proto.Uint32(1)
	q := l.Submit(sub)
	defer q.Close("")
	defer close(more)
	for _, p := range []float32{-1, -2, -3} {
		more <- p
		got, err := q.Take(t.Context(), nil)
		if diff := cmp.Diff([]*generationv1.LogProbs{probs(p)}, got.LogProbs, protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}
