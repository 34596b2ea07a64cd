package openai

import (
	"strconv"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const (
	// maxChoices is the most answers to one prompt, those that best_of drops included.
	maxChoices = 128
	// maxPrompts is the most prompts of a request, and the most answers to all of them.
	maxPrompts = 2048
	// maxLogprobs is the most alternatives told of each token; text completions have less.
	maxLogprobs, maxTextLogprobs = 20, 5
)

// output gives what reads a parameter that says what is wanted of an answer; nil for another.
func (p *parser) output(name string) func() error {
	switch name {
	case "n":
		return p.setCount(&p.req.Choices, 1, maxChoices)
	case "return_token_ids":
		return p.setFlag(&p.req.ReturnTokenIds)
	case "skip_special_tokens":
		return func() error {
			skip, err := p.boolean()
			p.req.SpecialTokens = err == nil && !skip
			return err
		}
	}
	return nil
}

// settleLogprobs puts a chat's two parameters together.
func (p *parser) settleLogprobs() error {
	switch {
	case p.topLogprobs != nil && *p.topLogprobs > 0 && !p.wantLogprobs:
		return bad("invalid_parameter_combination", "top_logprobs",
			"The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.")
	case p.wantLogprobs && p.topLogprobs != nil:
		p.req.Logprobs = p.topLogprobs
	case p.wantLogprobs:
		p.req.Logprobs = new(uint32)
	}
	return nil
}

// checkOutput checks what is wanted of the answers to a request of so many prompts.
func checkOutput(req *generationv1.Request, prompts int) error {
	n, most := req.GetChoices(), Candidates(req)
	switch {
	case n > maxChoices:
		return aboveMax("n", maxChoices, strconv.FormatUint(uint64(n), 10))
	case most > maxChoices:
		return aboveMax("best_of", maxChoices, strconv.FormatUint(uint64(most), 10))
	case req.GetBestOf() > 0 && req.GetBestOf() < Choices(req):
		return bad("integer_below_min_value", "best_of",
			"Invalid 'best_of': integer below minimum value. Expected a value >= 'n', which is %d, but got %d instead.", Choices(req), req.GetBestOf())
	case req.GetStream() && most > Choices(req):
		return bad("invalid_parameter_combination", "best_of", "Setting 'best_of' to more than 'n' is not supported when 'stream' is enabled.")
	case req.GetLogprobs() > maxLogprobs:
		return aboveMax("logprobs", maxLogprobs, strconv.FormatUint(uint64(req.GetLogprobs()), 10))
	case req.GetEcho() && req.Logprobs != nil:
		return bad("unsupported_value", "echo",
			"Unsupported value: 'echo' does not support 'logprobs' yet: the log probabilities of a prompt are not told. Set one of them.")
	case prompts > maxPrompts:
		return longArray("prompt", maxPrompts, lengthOf(prompts))
	case prompts*int(most) > maxPrompts:
		return bad("invalid_value", "prompt",
			"Invalid 'prompt': too many answers. Expected at most %d in one request, but %d prompts with %d answers each are more.", maxPrompts, prompts, most)
	}
	return nil
}

// Choices is how many answers a request wants to each prompt.
func Choices(req *generationv1.Request) uint32 { return max(req.GetChoices(), 1) }

// Candidates is how many answers to each prompt are generated, of which the best are kept.
func Candidates(req *generationv1.Request) uint32 { return max(Choices(req), req.GetBestOf()) }
