package prompt

import (
	"cmp"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sampling"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// draw completes the sampling parameters with their defaults and checks them.
func (b *Builder) draw(p *generationv1.Sampling) (*generationv1.Sampling, error) {
	if p == nil || p.Seed == nil {
		return nil, rpc.InvalidArgument("seed", "is not set, want the seed that the frontend draws where the client gives none")
	}
	temperature, topP, topK := float32(1), float32(1), p.GetTopK()
	if p.Temperature != nil {
		temperature = p.GetTemperature()
	}
	if p.TopP != nil {
		topP = p.GetTopP()
	}
	given := sequence.Sampling{
		Temperature: temperature, TopP: topP, TopK: int(topK), MinP: p.GetMinP(), RepetitionPenalty: p.GetRepetitionPenalty(),
		FrequencyPenalty: p.GetFrequencyPenalty(), PresencePenalty: p.GetPresencePenalty(),
	}
	for _, bias := range p.GetLogitBias() {
		given.Bias = append(given.Bias, sequence.Bias{Token: bias.GetToken(), Bias: bias.GetBias()})
	}
	if err := sampling.Validate(given); err != nil {
		return nil, samplingError(err)
	}
	if p.RepetitionPenalty != nil && p.GetRepetitionPenalty() == 0 {
		return nil, rpc.InvalidArgument("repetition_penalty", "is 0, want more")
	}
	vocabulary := b.cfg.Tokenizer.VocabTokens()
	for _, bias := range given.Bias {
		if int(bias.Token) >= vocabulary {
			return nil, rpc.InvalidArgument("logit_bias", fmt.Sprintf("has the token %d, want less than the vocabulary's %d", bias.Token, vocabulary))
		}
	}
	return &generationv1.Sampling{
		Temperature: &temperature, TopP: &topP, TopK: &topK, Seed: p.Seed, MinP: p.MinP, RepetitionPenalty: p.RepetitionPenalty,
		FrequencyPenalty: p.FrequencyPenalty, PresencePenalty: p.PresencePenalty, LogitBias: p.GetLogitBias(),
	}, nil
}

// choicesMax bounds the answers to one prompt.
const choicesMax = 128

// checkAnswer checks what is wanted of the answer.
func checkAnswer(req *generationv1.Request) error {
	_, isChat := req.GetInput().(*generationv1.Request_Chat)
	switch {
	case req.GetChoices() > choicesMax:
		return rpc.InvalidArgument("n", fmt.Sprintf("is %d, want at most %d", req.GetChoices(), choicesMax))
	case req.GetBestOf() > max(1, req.GetChoices()):
		return rpc.InvalidArgument("best_of", "is more than the number of choices, want frontends to choose")
	case req.GetLogprobs() > sampling.MaxTopLogProbs:
		return rpc.InvalidArgument("logprobs", fmt.Sprintf("is %d, want at most %d", req.GetLogprobs(), sampling.MaxTopLogProbs))
	case req.GetEcho() && isChat:
		return rpc.InvalidArgument("echo", "is set for a chat, want it only for a text or token ids")
	}
	return nil
}

// Choices is how many answers a request wants.
func Choices(req *generationv1.Request) int { return int(cmp.Or(req.GetChoices(), 1)) }
