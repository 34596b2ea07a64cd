package processor

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// Tokenize implements processorv1.ProcessorServer.
func (p *Processor) Tokenize(ctx context.Context, r *processorv1.TokenizeRequest) (*processorv1.TokenizeResponse, error) {
	if !p.admission.enter() {
		return nil, errFull(p.cfg.MaxRequests)
	}
	defer p.admission.leave()
	if err := p.checkModel(r.GetRequest().GetModel()); err != nil {
		return nil, err
	}
	tokens, err := p.builder.Encode(ctx, r.GetRequest(), r.AddSpecialTokens)
	if err != nil {
		return nil, err
	}
	out := &processorv1.TokenizeResponse{Tokens: tokens, ContextTokens: uint32(p.contextTokens())}
	if r.GetReturnTexts() {
		// Each text has a header on the wire, and the message must stay below the limit, too.
		rest := p.cfg.MaxBodyBytes - proto.Size(out) - 2*len(tokens)
		if out.Texts, err = p.builder.Texts(tokens, rest); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Detokenize implements processorv1.ProcessorServer.
func (p *Processor) Detokenize(ctx context.Context, r *processorv1.DetokenizeRequest) (*processorv1.DetokenizeResponse, error) {
	if !p.admission.enter() {
		return nil, errFull(p.cfg.MaxRequests)
	}
	defer p.admission.leave()
	if err := p.checkModel(r.GetRequest().GetModel()); err != nil {
		return nil, err
	}
	in, ok := r.GetRequest().GetInput().(*generationv1.Request_TokenIds)
	if !ok {
		return nil, rpc.InvalidArgument("tokens", "is not set, want token ids")
	}
	text, err := p.builder.Decode(ctx, in.TokenIds.GetIds(), p.cfg.MaxBodyBytes)
	if err != nil {
		return nil, err
	}
	return &processorv1.DetokenizeResponse{Text: text}, nil
}
