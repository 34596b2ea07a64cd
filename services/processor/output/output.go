// Package output turns the tokens of one sequence into the text of its answer.
//
// It detokenizes, ends the answer at a stop text, an end-of-generation token or the
// limit, and holds back text that may still become a stop text. It is not a stream and
// knows neither workers nor clients; it starts no goroutine, and a Text belongs to one.
package output

import (
	"slices"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Decoder turns tokens into characters, one sequence long. The tokenizer's incremental
// detokenizer is one.
type Decoder interface {
	// Push takes the next token and returns the characters that are complete now.
	Push(token sequence.Token) string
	// Flush returns what is left at the end: the replacement for an incomplete character.
	Flush() string
}

// Config says how an answer is made.
type Config struct {
	// Decoder turns tokens into characters; the Text owns it.
	Decoder Decoder
	// Stop holds the texts that end the answer where they first appear; none is empty.
	Stop []string
	// EndTokens end the answer and yield no text.
	EndTokens []sequence.Token
	// MaxTokens bounds the answer, in tokens; at least 1.
	MaxTokens int
	// MinTokens is how many tokens must have come before a stop text may end the answer.
	MinTokens int
	// IncludeStop makes the stop text, or the text of the end token, part of the answer.
	IncludeStop bool
	// Settle has Settled follow which tokens' texts are delivered.
	Settle bool
}

// Text is an answer in progress.
type Text struct {
	cfg    Config
	stop   *matcher
	tokens []sequence.Token
	finish sequence.Finish
	cut    bool
	settle *settlement // nil: nobody asks
}

// New returns an empty answer.
func New(cfg Config) *Text {
	t := &Text{cfg: cfg, stop: newMatcher(cfg.Stop)}
	if cfg.Settle {
		t.settle = &settlement{}
	}
	return t
}

// Push takes the next token and returns the text that may be delivered now. Once Finish
// says that the answer has ended, further tokens are no part of it: they return nothing
// and are not counted.
func (t *Text) Push(token sequence.Token) string {
	if t.finish != sequence.Unfinished {
		return ""
	}
	t.tokens = append(t.tokens, token)
	ends := slices.Contains(t.cfg.EndTokens, token)
	if ends && !t.cfg.IncludeStop {
		return t.End(sequence.FinishStop)
	}
	piece := t.cfg.Decoder.Push(token)
	t.settle.push(len(piece))
	text, stopped := t.add(piece)
	if stopped {
		t.cut = true
		return t.end(sequence.FinishStop, text)
	}
	t.settle.deliver(len(text))
	switch {
	case ends:
		return text + t.End(sequence.FinishStop)
	case len(t.tokens) >= t.cfg.MaxTokens:
		return text + t.End(sequence.FinishLength)
	}
	return text
}

// add takes the next piece and returns what of the text may be delivered now, and whether a
// stop text has ended it.
func (t *Text) add(piece string) (text string, stopped bool) {
	return t.stop.add(piece, len(t.tokens) >= t.cfg.MinTokens, t.cfg.IncludeStop)
}

// end ends the answer with a last text.
func (t *Text) end(reason sequence.Finish, text string) string {
	t.finish = reason
	t.settle.deliver(len(text))
	t.settle.end()
	return text
}

// End ends the answer for a reason that the tokens do not show, such as the end of the
// worker's context, and returns the text that was held back. An answer that has ended
// already keeps its reason.
func (t *Text) End(reason sequence.Finish) string {
	if t.finish != sequence.Unfinished {
		return ""
	}
	piece := t.cfg.Decoder.Flush()
	t.settle.flush(len(piece))
	text, stopped := t.add(piece)
	if stopped {
		return t.end(sequence.FinishStop, text)
	}
	return t.end(reason, text+t.stop.rest())
}

// Finish is why the answer ended, or Unfinished.
func (t *Text) Finish() sequence.Finish { return t.finish }

// Cut says that a stop text ended the answer: whoever makes the tokens does not know it.
func (t *Text) Cut() bool { return t.cut }

// Tokens are the answer's tokens, those without text included. The slice is only
// appended to, so a caller may keep it.
func (t *Text) Tokens() []sequence.Token { return t.tokens[:len(t.tokens):len(t.tokens)] }

// Settled is how many of the first Tokens have no text left that is held back. At the end it
// is those that the text is made of: without the token that ended it, and those of a stop
// text. It needs Config.Settle.
func (t *Text) Settled() int { return t.settle.tokens }
