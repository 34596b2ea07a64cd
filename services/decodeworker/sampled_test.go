package decodeworker

import (
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// demanding asks for everything that can be asked of a draw.
func demanding() *generationv1.Sequence {
	return &generationv1.Sequence{
		RequestId: "r", Choice: 1, Prompt: prompt, MaxTokens: 30, MinTokens: 12, StopTokens: []uint32{5, 9000}, Logprobs: proto.Uint32(3),
		Sampling: &generationv1.Sampling{
			Temperature: proto.Float32(0.9), TopP: proto.Float32(0.98), MinP: proto.Float32(0.001), Seed: proto.Uint64(42),
			RepetitionPenalty: proto.Float32(1.3), FrequencyPenalty: proto.Float32(0.4), PresencePenalty: proto.Float32(0.6),
			LogitBias: []*generationv1.LogitBias{{Token: 5, Bias: 6}, {Token: 11, Bias: 5}, {Token: 12, Bias: -100}},
		},
	}
}

// spread makes a harness whose toy gives every token a logit of its own, and says what it answers.
func spread(t *testing.T) (h *harness, tokens []sequence.Token, probs []sequence.LogProbs) {
	t.Helper()
	tokens, probs, err := enginetest.SpreadAnswer(worker.Spec(demanding()))
	if err != nil {
		t.Fatal(err)
	}
	h = newHarness(t, nil)
	h.toy.Spread = true
	return h.start(), tokens, probs
}

func compare(t *testing.T, what string, wantTokens, tokens []sequence.Token, wantProbs, probs []sequence.LogProbs) {
	t.Helper()
	if diff := cmp.Diff(wantTokens, tokens); diff != "" {
		t.Errorf("%s: tokens (-want +got):\n%s", what, diff)
	}
	if diff := cmp.Diff(wantProbs, probs); diff != "" {
		t.Errorf("%s: log-probabilities (-want +got):\n%s", what, diff)
	}
}

// compare holds what came of a sequence against what had to come.
func (s *stream) compare(id uint32, tokens []sequence.Token, probs []sequence.LogProbs) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	compare(s.t, "sequence", tokens, s.tokens[id], probs, s.probs[id])
}

func TestGenerateTellsWhatIsAskedOfEachToken(t *testing.T) {
	h, tokens, probs := spread(t)
	client, err := h.client.Generate(within(t), &decodeworkerv1.GenerateRequest{Sequence: demanding()})
	if err != nil {
		t.Fatal(err)
	}
	var gotTokens []sequence.Token
	var gotProbs []sequence.LogProbs
	for {
		m, err := client.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(m.GetTokens()) != len(m.GetLogprobs()) {
			t.Errorf("%d log-probabilities for %d tokens", len(m.GetLogprobs()), len(m.GetTokens()))
		}
		gotTokens = append(gotTokens, m.GetTokens()...)
		for _, p := range m.GetLogprobs() {
			gotProbs = append(gotProbs, *worker.FromLogProbs(p))
		}
	}
	compare(t, "generate", tokens, gotTokens, probs, gotProbs)
}

func TestAStreamTellsWhatIsAskedOfEachTokenAndNoMore(t *testing.T) {
	h, tokens, probs := spread(t)
	s := h.attach("p", "1")
	s.submit(1, 1, demanding())
	plain := demanding()
	plain.Logprobs = nil
	s.submit(2, 2, plain)
	s.end()
	s.end()
	s.compare(1, tokens, probs)
	s.compare(2, tokens, nil)
}

func TestAMigratedSequenceIsToldTheSame(t *testing.T) {
	h, tokens, probs := spread(t)
	s := h.attach("p", "1")
	for n := range tokens {
		q := demanding()
		q.Generated = tokens[:n]
		s.submit(uint32(n), uint64(n+1), q)
		s.end()
		s.compare(uint32(n), tokens[n:], probs[n:])
	}
}

func TestTheFirstTokenOfARemotePromptIsToldTheSame(t *testing.T) {
	for _, n := range []int{0, 3} { // from the beginning, and migrated
		h, tokens, probs := spread(t)
		always(h)
		p, s := h.prefiller(), h.attach("p", "1")
		p.work = func(note *transferv1.CompletionNote) {
			note.GetFirstTokens()[0].Logprobs = worker.LogProbs(&probs[n])
		}
		q := demanding()
		q.Generated = tokens[:n]
		s.submit(1, 1, q)
		job := take(t, "a job", h.queue.arrived)
		p.complete(job, p.claim(job, "a").GetTicket(), append(q.GetPrompt()[:len(prompt):len(prompt)], tokens[:n]...), tokens[n])
		if e := s.end(); e.GetPlacement() != placedThere {
			t.Errorf("ended %v", e)
		}
		s.compare(1, tokens[n:], probs[n:])
	}
}

// A prefill worker that does not know of them leaves them out.
func TestAFirstTokenWithoutWhatIsAskedForIsDrawnHere(t *testing.T) {
	h, tokens, probs := spread(t)
	always(h)
	p, s := h.prefiller(), h.attach("p", "1")
	s.submit(1, 1, demanding())
	job := take(t, "a job", h.queue.arrived)
	p.complete(job, p.claim(job, "a").GetTicket(), prompt, tokens[0])
	if e := s.end(); e.GetPlacement() != generationv1.Placement_PLACEMENT_FALLBACK {
		t.Errorf("ended %v, want a fallback", e)
	}
	s.compare(1, tokens, probs)
	h.checkIdle()
}
