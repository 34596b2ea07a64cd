package e2e

import (
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/engine/sim"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// Simulated workers in processes of their own: real blocks move through shared memory, and a block that
// was not moved, or is another's, changes the text.
func TestSimulatedWorkersAnswerAlikeWhereverAPromptIsComputed(t *testing.T) {
	c := start(t, options{model: "sim:llama-3.1-8b"})
	for _, p := range []struct {
		policy disagg.Policy
		place  generationv1.Placement
	}{
		{local, generationv1.Placement_PLACEMENT_LOCAL}, {remote, generationv1.Placement_PLACEMENT_REMOTE},
	} {
		t.Run(p.policy.Policy, func(t *testing.T) {
			c := c.with(t)
			c.setPolicy(p.policy, p.place)
			requests := make([]request, 60)
			for i := range requests { // they share beginnings
				requests[i] = request{text: strings.Repeat("all alike ", 1+i%7*30) + strings.Repeat("x", i), maxTokens: 20, salt: p.policy.Policy}
			}
			before := c.idle()
			cached := uint32(0)
			for i, a := range c.all(requests, 8) {
				var want strings.Builder
				for _, token := range sim.Answer(bytesOf(requests[i].text), 20) {
					want.WriteByte(byte(token))
				}
				if a.text != want.String() {
					t.Errorf("request %d: %q, %v; want %q", i, a.text, a.served.GetPlacement(), &want)
				}
				cached += a.usage.GetCachedTokens()
			}
			w := difference(before, c.idle())
			c.expect("fallbacks", w.fallback, 0)
			if p.policy == remote && w.received == 0 {
				t.Error("no block was moved")
			}
			if cached == 0 {
				t.Error("no prefix was reused")
			}
		})
	}
	c.indexIsRight()
}

// bytesOf are the tokens of a text: its bytes.
func bytesOf(text string) []uint32 {
	tokens := make([]uint32, len(text))
	for i := range len(text) {
		tokens[i] = uint32(text[i])
	}
	return tokens
}
