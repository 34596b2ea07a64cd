package frontend

import (
	"errors"
	"fmt"
	"time"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// tally follows the choices of an answer: which have begun and ended, and what they cost.
type tally struct {
	parts, width int      // prompts, and choices that the processor gives to each
	choices      []choice // those of a prompt are side by side

	begun          bool // a token came
	open, left     int  // choices that have begun and not ended, and all that have not ended
	prompt, cached uint32
	completion     uint32
	between        time.Duration // from the first token to the last, over all choices that ended
	gaps           uint32        // between their tokens
}

// choice is one answer to one prompt.
type choice struct {
	begun, ended bool
	first        time.Time // when its first token came
}

// newTally is for a complete request.
func newTally(req *generationv1.Request) tally {
	t := tally{parts: partsOf(req), width: int(openai.Candidates(req))}
	t.left = t.parts * t.width
	t.choices = make([]choice, t.left)
	return t
}

// take checks a chunk that came now, and gives the index of its choice.
func (t *tally) take(p piece, now time.Time) (int, error) {
	c := p.chunk
	if uint64(c.GetChoice()) >= uint64(t.width) {
		return 0, fmt.Errorf("the processor sent choice %d of a request for %d", c.GetChoice(), t.width)
	}
	index := p.part*t.width + int(c.GetChoice())
	one := &t.choices[index]
	if one.ended {
		return 0, errors.New("the processor sent a chunk after the last")
	}
	switch c.GetFinishReason() {
	case generationv1.FinishReason_FINISH_REASON_UNSPECIFIED:
		t.hear(one, now)
	case generationv1.FinishReason_FINISH_REASON_STOP, generationv1.FinishReason_FINISH_REASON_LENGTH:
		t.hear(one, now)
		t.close(one, c, now)
	default:
		return 0, fmt.Errorf("the answer ended with %v and no status", c.GetFinishReason())
	}
	return index, nil
}

// hear notes a piece of a choice.
func (t *tally) hear(one *choice, now time.Time) {
	if !one.begun {
		one.begun, one.first = true, now
		t.begun = true
		t.open++
	}
}

// close counts a choice that ended. All choices of a prompt tell its tokens, of which those
// of the first count.
func (t *tally) close(one *choice, c *generationv1.Chunk, now time.Time) {
	one.ended = true
	t.open--
	t.left--
	u := c.GetUsage()
	if c.GetChoice() == 0 {
		t.prompt += u.GetPromptTokens()
		t.cached += u.GetCachedTokens()
	}
	t.completion += u.GetCompletionTokens()
	if n := u.GetCompletionTokens(); n > 1 {
		t.between += now.Sub(one.first)
		t.gaps += n - 1
	}
}

// talking tells whether a choice is under way, or all are over: then nothing has a reason
// to be late.
func (t *tally) talking() bool { return t.open > 0 || t.left == 0 }

func (t *tally) usage() *generationv1.Usage {
	return &generationv1.Usage{PromptTokens: t.prompt, CompletionTokens: t.completion, CachedTokens: t.cached}
}
