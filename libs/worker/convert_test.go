package worker

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func TestSpecTakesEverythingFromTheWire(t *testing.T) {
	got := Spec(&generationv1.Sequence{
		RequestId: "r", Choice: 2, Prompt: []uint32{1, 2}, Generated: []uint32{3}, MaxTokens: 9, MinTokens: 4, StopTokens: []uint32{5},
		CacheSalt: "salt", Logprobs: proto.Uint32(6), Priority: -7,
		Sampling: &generationv1.Sampling{
			Temperature: proto.Float32(0.5), TopP: proto.Float32(0.25), TopK: proto.Uint32(8), MinP: proto.Float32(0.125), Seed: proto.Uint64(10),
			RepetitionPenalty: proto.Float32(1.5), FrequencyPenalty: proto.Float32(-1), PresencePenalty: proto.Float32(2),
			LogitBias: []*generationv1.LogitBias{{Token: 11, Bias: -12}, {Token: 13, Bias: 14}},
		},
	})
	want := sequence.Spec{
		RequestID: "r", Choice: 2, Prompt: []uint32{1, 2}, Generated: []uint32{3}, MaxTokens: 9, MinTokens: 4, StopTokens: []uint32{5},
		Salt: "salt", LogProbs: true, TopLogProbs: 6, Priority: -7,
		Sampling: sequence.Sampling{
			Temperature: 0.5, TopP: 0.25, TopK: 8, MinP: 0.125, Seed: 10, RepetitionPenalty: 1.5, FrequencyPenalty: -1, PresencePenalty: 2,
			Bias: []sequence.Bias{{Token: 11, Bias: -12}, {Token: 13, Bias: 14}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSpecOfWhatIsUnset(t *testing.T) {
	if diff := cmp.Diff(sequence.Spec{Sampling: sequence.Sampling{Temperature: 1}}, Spec(&generationv1.Sequence{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	zero := Spec(&generationv1.Sequence{Logprobs: proto.Uint32(0), Sampling: &generationv1.Sampling{Temperature: proto.Float32(0)}})
	if !zero.LogProbs || zero.TopLogProbs != 0 || zero.Sampling.Temperature != 0 {
		t.Errorf("%+v, want log-probabilities without alternatives, and temperature 0", zero)
	}
}

func TestLogProbsComeOverTheWire(t *testing.T) {
	for _, want := range []*sequence.LogProbs{
		nil, {LogProb: -1}, {LogProb: -2, Top: []sequence.TokenLogProb{{Token: 3, LogProb: -0.5}, {Token: 0, LogProb: -2}}},
	} {
		if diff := cmp.Diff(want, FromLogProbs(LogProbs(want))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	uneven := &generationv1.LogProbs{TopTokens: []uint32{1, 2}, TopLogprobs: []float32{-1}}
	if got := FromLogProbs(uneven); len(got.Top) != 1 {
		t.Errorf("%+v of columns of unequal length, want one entry", got)
	}
}
