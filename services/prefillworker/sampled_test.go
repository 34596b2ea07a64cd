package prefillworker

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// demanding asks for everything that can be asked of a draw. Without its penalties, biases and
// min_tokens the first token would be another.
func demanding(t *testing.T, generated int) (m *generationv1.Sequence, tokens []sequence.Token, probs []sequence.LogProbs) {
	t.Helper()
	m = spec()
	m.MaxTokens, m.MinTokens, m.Logprobs = 6, 6, proto.Uint32(4)
	m.StopTokens = enginetest.ToyAnswer(prompt, 1) // what it would begin with
	m.Sampling = &generationv1.Sampling{
		Temperature: proto.Float32(0.7), MinP: proto.Float32(0.01), Seed: proto.Uint64(7), RepetitionPenalty: proto.Float32(1.5),
		FrequencyPenalty: proto.Float32(1), PresencePenalty: proto.Float32(-0.5),
		LogitBias: []*generationv1.LogitBias{{Token: prompt[0], Bias: 9}, {Token: 77, Bias: 3}},
	}
	tokens, probs, err := enginetest.SpreadAnswer(worker.Spec(m))
	if err != nil {
		t.Fatal(err)
	}
	m.Generated = tokens[:generated]
	return m, tokens, probs
}

func checkFirst(t *testing.T, got []*transferv1.FirstToken, token sequence.Token, probs sequence.LogProbs) {
	t.Helper()
	if len(got) != 1 || got[0].GetLogprobs() == nil || got[0].GetToken() != token {
		t.Fatalf("first tokens %v, want %d with its log-probability", got, token)
	}
	if diff := cmp.Diff(probs, *worker.FromLogProbs(got[0].GetLogprobs())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheFirstTokenIsDrawnAndToldAsAskedFor(t *testing.T) {
	for _, n := range []int{0, 2} { // from the beginning, and migrated
		h := newHarness(t, nil)
		h.toy.Spread = true
		m, tokens, probs := demanding(t, n)
		h.decode.end = len(prompt) + n
		h.start()
		h.publish(func(r *transferv1.RemotePrefillRequest) { r.Sequence = m })
		checkFirst(t, h.decode.answerNote(committed).GetFirstTokens(), tokens[n], probs[n])
		h.acknowledged()
		if slices.Equal(tokens[:1], m.GetStopTokens()) {
			t.Error("nothing of what is asked for shows")
		}
	}
}

func TestAHeldPromptsFirstTokenIsDrawnAndToldAsAskedFor(t *testing.T) {
	r := newReader(t, nil)
	r.toy.Spread = true
	r.start()
	q := request("a")
	m, tokens, probs := demanding(t, 0)
	q.Sequence = m
	got := take(t, "an answer", r.ask(within(t), q))
	if got.err != nil {
		t.Fatal(got.err)
	}
	checkFirst(t, got.GetFirstTokens(), tokens[0], probs[0])
	r.release("a", ok)
	r.checkIdle()
}

func TestAMetPromptsFirstTokenIsDrawnAndToldAsAskedFor(t *testing.T) {
	r := newMeeting(t, nil)
	r.toy.Spread = true
	r.start()
	q := r.meeting("a")
	m, tokens, probs := demanding(t, 0)
	q.Sequence = m
	got := r.ask(within(t), q)
	checkFirst(t, r.decode.answerNote(committed).GetFirstTokens(), tokens[0], probs[0])
	if a := take(t, "an answer", got); a.err != nil {
		t.Error(a.err)
	}
	r.checkIdle()
}

func TestWhatIsNotAskedForIsNotTold(t *testing.T) {
	h := newHarness(t, nil).start()
	h.publish(nil)
	if p := h.decode.answerNote(committed).GetFirstTokens()[0].GetLogprobs(); p != nil {
		t.Errorf("the note tells %v", p)
	}
	h.acknowledged()
}
