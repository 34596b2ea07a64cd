package e2e

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// told is what a worker tells of a sequence.
type told struct {
	Tokens []sequence.Token
	Probs  []*generationv1.LogProbs
	Reason generationv1.FinishReason
}

// demanding asks for everything that can be asked of a draw.
func demanding(src *source) *generationv1.Sequence {
	m := &generationv1.Sequence{
		RequestId: "r", Prompt: src.tokens(20 + src.rnd.IntN(100)), MaxTokens: 24, MinTokens: 10, Logprobs: proto.Uint32(5),
		Sampling: &generationv1.Sampling{
			Temperature: proto.Float32(0.9), TopP: proto.Float32(0.97), MinP: proto.Float32(0.0005), Seed: proto.Uint64(src.rnd.Uint64()),
			RepetitionPenalty: proto.Float32(1.2), FrequencyPenalty: proto.Float32(0.5), PresencePenalty: proto.Float32(0.3),
		},
	}
	for _, t := range src.rnd.Perm(src.vocab)[:8] { // four that would end it, all of them likely
		m.Sampling.LogitBias = append(m.Sampling.LogitBias, &generationv1.LogitBias{Token: uint32(t), Bias: 2})
		if len(m.StopTokens) < 4 {
			m.StopTokens = append(m.StopTokens, uint32(t))
		}
	}
	if src.rnd.IntN(2) == 0 {
		m.Sampling.Temperature = proto.Float32(0)
	}
	return m
}

// tell runs a sequence on a decode worker.
func (c *cluster) tell(i int, m *generationv1.Sequence, where generationv1.Placement) (got told, err error) {
	stream, err := c.decodes[i].Generate(c.t.Context(), &decodeworkerv1.GenerateRequest{Sequence: m})
	if err != nil {
		return got, err
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got.Tokens, got.Probs = append(got.Tokens, r.GetTokens()...), append(got.Probs, r.GetLogprobs()...)
		if e := r.GetEnded(); e != nil {
			if e.GetPlacement() != where {
				return got, fmt.Errorf("placed %v, want %v", e.GetPlacement(), where)
			}
			got.Reason = e.GetReason()
		}
	}
}

// TestEverythingAskedOfADrawGivesOneAnswer holds tokens and log-probabilities of sequences that
// were prefilled where they are decoded against those of sequences that were prefilled elsewhere,
// in each style, and against those that go on at another worker after some tokens.
func TestEverythingAskedOfADrawGivesOneAnswer(t *testing.T) {
	for _, style := range []worker.Style{worker.Push, worker.Pull, worker.Rendezvous} {
		t.Run(string(style), func(t *testing.T) {
			shape := cputest.Tiny()
			c := start(t, options{
				shape:   shape,
				decode:  func(_ int, d *decodeConfig) { d.Engine.Style = style },
				prefill: func(_ int, p *prefillConfig) { p.Engine.Style, p.Jobs = style, 8 },
			})
			src := newSource(31, shape.VocabTokens)
			var requests []*generationv1.Sequence
			for range 20 {
				requests = append(requests, demanding(src))
			}
			here, there := generationv1.Placement_PLACEMENT_LOCAL, generationv1.Placement_PLACEMENT_REMOTE
			run := func(i, request, generated int, known told, salt string, where generationv1.Placement) told {
				m := proto.CloneOf(requests[request])
				m.CacheSalt, m.Generated = salt, known.Tokens[:generated]
				got, err := c.tell(i, m, where)
				if err != nil {
					t.Fatalf("request %d after %d tokens: %v", request, generated, err)
				}
				return got
			}
			c.setPolicy(local, here)
			var want []told
			stops := 0
			for i, r := range requests {
				w := run(0, i, 0, told{}, reference, here)
				if len(w.Tokens) < int(r.GetMinTokens()) || len(w.Probs) != len(w.Tokens) || len(w.Probs[0].GetTopTokens()) != 5 {
					t.Fatalf("request %d: %d tokens, %d log-probabilities", i, len(w.Tokens), len(w.Probs))
				}
				if w.Reason == generationv1.FinishReason_FINISH_REASON_STOP {
					stops++
				}
				want = append(want, w)
			}
			t.Logf("%d of %d ended by a stop token", stops, len(want))
			check := func(what string, where generationv1.Placement) {
				for i, w := range want {
					for _, n := range []int{0, 1, len(w.Tokens) / 2, len(w.Tokens) - 1} {
						got := run(i%2, i, n, w, what, where)
						rest := told{w.Tokens[n:], w.Probs[n:], w.Reason}
						if diff := cmp.Diff(rest, got, protocmp.Transform()); diff != "" {
							t.Errorf("%s, request %d after %d tokens (-want +got):\n%s", what, i, n, diff)
						}
					}
				}
			}
			check("local", here)
			c.setPolicy(remote, there)
			check("remote", there)
		})
	}
}
