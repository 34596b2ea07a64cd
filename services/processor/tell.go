package processor

import (
	"github.com/switchyard-llm/switchyard/libs/sequence"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// told is how far the chunks of an answer have told of its tokens, beside the text.
type told struct {
	logprobs []*generationv1.LogProbs // of all tokens; empty: nobody asked
	probable int                      // tokens whose log-probability was told
	ids      int                      // tokens whose id was told
}

// tell adds to a chunk what is wanted of the tokens behind its text.
func (a *answer) tell(c *generationv1.Chunk) {
	if a.req.GetReturnTokenIds() {
		if a.sent == 0 {
			c.PromptTokenIds = a.base.GetPrompt()
		}
		tokens := a.text.Tokens()
		c.TokenIds, a.told.ids = tokens[a.told.ids:], len(tokens)
	}
	if a.req.Logprobs == nil {
		return
	}
	for ; a.told.probable < a.text.Settled(); a.told.probable++ {
		c.Logprobs = append(c.Logprobs, a.logprob(a.text.Tokens()[a.told.probable], a.told.logprobs[a.told.probable]))
	}
}

func (a *answer) logprob(token sequence.Token, p *generationv1.LogProbs) *generationv1.TokenLogProb {
	out := a.tokenLogProb(token, p.GetLogprob())
	for i, t := range p.GetTopTokens() {
		out.Top = append(out.Top, a.tokenLogProb(t, p.GetTopLogprobs()[i]))
	}
	return out
}

func (a *answer) tokenLogProb(token sequence.Token, logprob float32) *generationv1.TokenLogProb {
	text, _ := a.p.deps.Model.Tokenizer.Token(token)
	return &generationv1.TokenLogProb{Id: token, Text: []byte(text), Logprob: logprob}
}
