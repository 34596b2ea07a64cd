package frontend

import (
	"context"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// Tokenize implements frontendv1.FrontendServer.
func (s *server) Tokenize(ctx context.Context, in *frontendv1.TokenizeRequest) (*frontendv1.TokenizeResponse, error) {
	var r *processorv1.TokenizeResponse
	err := s.plain(ctx, func(ctx context.Context, ignored *openai.Ignored) (model string, err error) {
		if in.GetTyped() != nil {
			err = openai.CheckTokenize(in.GetTyped())
		} else {
			in, err = openai.ParseTokenize(in.GetJson(), ignored)
		}
		tell(ctx, ignored)
		if err != nil {
			return "", err
		}
		r, err = s.processor.Tokenize(ctx, &processorv1.TokenizeRequest{
			Request: in.GetTyped(), AddSpecialTokens: in.AddSpecialTokens, ReturnTexts: in.GetReturnTexts(),
		})
		return in.GetTyped().GetModel(), err
	})
	if err != nil {
		return nil, err
	}
	return &frontendv1.TokenizeResponse{Tokens: r.GetTokens(), Texts: r.GetTexts(), ContextTokens: r.GetContextTokens()}, nil
}

// Detokenize implements frontendv1.FrontendServer.
func (s *server) Detokenize(ctx context.Context, in *frontendv1.DetokenizeRequest) (*frontendv1.DetokenizeResponse, error) {
	var r *processorv1.DetokenizeResponse
	err := s.plain(ctx, func(ctx context.Context, ignored *openai.Ignored) (string, error) {
		req, err := readDetokenize(in, ignored)
		tell(ctx, ignored)
		if err != nil {
			return "", err
		}
		r, err = s.processor.Detokenize(ctx, &processorv1.DetokenizeRequest{Request: req})
		return req.GetModel(), err
	})
	if err != nil {
		return nil, err
	}
	return &frontendv1.DetokenizeResponse{Text: r.GetText()}, nil
}

func readDetokenize(in *frontendv1.DetokenizeRequest, ignored *openai.Ignored) (*generationv1.Request, error) {
	if typed := in.GetTyped(); typed != nil {
		return typed, openai.CheckDetokenize(typed)
	}
	return openai.ParseDetokenize(in.GetJson(), ignored)
}

// plain has a request answered that generates nothing: within the bounds of number and
// time. ask gives the model that was asked for. The result is nil or an *openai.Error.
func (s *server) plain(ctx context.Context, ask func(context.Context, *openai.Ignored) (model string, err error)) error {
	if exchangeOf(ctx) == nil { // a gRPC caller: the edge has not done this
		if err := s.admit(ctx); err != nil {
			return err
		}
		defer s.leave(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	model, err := ask(ctx, s.ignored())
	if err == nil {
		return nil
	}
	e := openai.ErrorOf(err)
	if e.Code == "model_not_found" && model != "" {
		e = openai.NoSuchModel(model)
	}
	return e
}
