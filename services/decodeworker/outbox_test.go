package decodeworker

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func TestABatchNamesTheEntriesOfItsLogProbs(t *testing.T) {
	o := newOutbox()
	asks, plain := o.add(7), o.add(8)
	for _, n := range []float32{1, 2} {
		plain.Token(1, nil)
		asks.Token(2, &sequence.LogProbs{LogProb: -n, Top: []sequence.TokenLogProb{{Token: 3, LogProb: -n / 2}}})
		told := func(entry uint32) *decodeworkerv1.EntryLogProbs {
			return &decodeworkerv1.EntryLogProbs{Entry: entry, Logprobs: &generationv1.LogProbs{
				Logprob: -n, TopTokens: []uint32{3}, TopLogprobs: []float32{-n / 2},
			}}
		}
		plain.Token(4, nil)
		asks.Token(5, &sequence.LogProbs{LogProb: -n, Top: []sequence.TokenLogProb{{Token: 3, LogProb: -n / 2}}})
		want := &decodeworkerv1.StepBatch{
			SequenceIds: []uint32{8, 7, 8, 7}, Tokens: []uint32{1, 2, 4, 5}, Logprobs: []*decodeworkerv1.EntryLogProbs{told(1), told(3)},
		}
		if diff := cmp.Diff(want, o.take(), protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
