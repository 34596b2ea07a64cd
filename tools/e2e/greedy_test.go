package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/modelstore/modeltest"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// TestGreedyOutputsOfTheRealModel sends the prompts as text through the whole line, with
// every prompt computed locally and with every prompt computed remotely.
func TestGreedyOutputsOfTheRealModel(t *testing.T) {
	cases := enginetest.GreedyOutputs(t)
	model := modeltest.TestModel(t)
	words := tokenizerOf(t, model)
	c := start(t, options{model: model})
	for _, p := range []struct {
		policy disagg.Policy
		place  generationv1.Placement
	}{
		{local, generationv1.Placement_PLACEMENT_LOCAL}, {remote, generationv1.Placement_PLACEMENT_REMOTE},
	} {
		t.Run(p.policy.Policy, func(t *testing.T) {
			c := c.with(t)
			c.setPolicy(p.policy, p.place)
			before := c.idle()
			requests := make([]request, len(cases))
			for i, g := range cases {
				requests[i] = request{text: g.Prompt, maxTokens: 64, salt: p.policy.Policy}
			}
			for i, a := range c.all(requests, 4) {
				if err := equal(a, cases[i], words); err != nil {
					t.Errorf("%s: %v", cases[i].Name, err)
				}
			}
			w := difference(before, c.idle())
			wantRemote := uint64(0)
			if p.policy == remote {
				wantRemote = uint64(len(cases))
			}
			c.expect("remote", w.remote, wantRemote)
			c.expect("fallbacks", w.fallback, 0)
		})
	}
}

// equal compares an answer with a reference, token for token where the text allows it.
func equal(a answer, want enginetest.Greedy, words *tokenizer.Tokenizer) error {
	text, finish := words.Decode(want.Tokens, tokenizer.NoSpecial), generationv1.FinishReason_FINISH_REASON_LENGTH
	if slices.Contains(words.EndTokens(), want.Tokens[len(want.Tokens)-1]) {
		finish = generationv1.FinishReason_FINISH_REASON_STOP
	}
	switch u := a.usage; {
	case int(u.GetPromptTokens()) != len(want.PromptTokens):
		return fmt.Errorf("%d prompt tokens, want %d", u.GetPromptTokens(), len(want.PromptTokens))
	case a.text != text || int(u.GetCompletionTokens()) != len(want.Tokens) || a.finish != finish:
		return fmt.Errorf("%q, %d tokens, %v; want %q, %d tokens, %v", a.text, u.GetCompletionTokens(), a.finish, text, len(want.Tokens), finish)
	}
	return nil
}

func tokenizerOf(t *testing.T, model string) *tokenizer.Tokenizer {
	t.Helper()
	file, err := gguf.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	words, err := tokenizer.FromGGUF(file)
	if err != nil {
		t.Fatal(err)
	}
	return words
}
