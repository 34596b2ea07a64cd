package enginetest

import (
	_ "embed"
	"encoding/json"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

//go:embed testdata/smollm2-f32.json
var greedy []byte

// Greedy is one greedy output of the default model (SmolLM2-135M-Instruct, Q4_1) with all
// arithmetic in f32, on which three independent implementations agree.
type Greedy struct {
	Name string `json:"name"`
	// Prompt is the text, whose special tokens are parsed into PromptTokens.
	Prompt       string           `json:"prompt"`
	PromptTokens []sequence.Token `json:"prompt_tokens"`
	// Tokens are up to 64; an end-of-generation token (0 or 2) is the last.
	Tokens []sequence.Token `json:"tokens"`
	// Margins are, for each token, its logit less that of the second best. Implementations
	// differ by up to 3e-4.
	Margins []float64 `json:"margins"`
}

// GreedyOutputs are 20 of them, of prompts between 1 and 1,500 tokens.
func GreedyOutputs(t testing.TB) []Greedy {
	t.Helper()
	var all []Greedy
	if err := json.Unmarshal(greedy, &all); err != nil {
		t.Fatal(err)
	}
	return all
}
