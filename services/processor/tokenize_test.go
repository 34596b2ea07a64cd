package processor_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
)

// There and back, without any worker.
func TestTokenizeAndDetokenize(t *testing.T) {
	h := start(t, options{})
	r, err := h.Tokenize(t.Context(), &processorv1.TokenizeRequest{Request: request("héllo", 1), ReturnTexts: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.GetTokens(), promptTokens("héllo")) || r.GetContextTokens() != contextTokens ||
		!slices.Equal(r.GetTexts(), []string{"h", "\ufffd", "\ufffd", "l", "l", "o"}) {
		t.Errorf("got %v", r)
	}
	back, err := h.Detokenize(t.Context(), &processorv1.DetokenizeRequest{Request: tokensOf(modelName, r.GetTokens()...)})
	if err != nil || back.GetText() != "héllo" {
		t.Errorf("back: %v, %v", back, err)
	}
	if r, err := h.Tokenize(t.Context(), &processorv1.TokenizeRequest{Request: request("x", 1)}); err != nil || len(r.GetTexts()) != 0 {
		t.Errorf("texts that nobody asked for: %v, %v", r, err)
	}
}

func tokensOf(model string, ids ...uint32) *generationv1.Request {
	return &generationv1.Request{Model: model, Input: &generationv1.Request_TokenIds{TokenIds: &generationv1.TokenIds{Ids: ids}}}
}

func TestTokenizeRefusesByName(t *testing.T) {
	h := start(t, options{config: func(c *processor.Config) { c.MaxBodyBytes = 1000 }})
	other := request("x", 1)
	other.Model = "other"
	for _, c := range []struct {
		in    *processorv1.TokenizeRequest
		code  codes.Code
		field string
	}{
		{&processorv1.TokenizeRequest{}, codes.InvalidArgument, "model"},
		{&processorv1.TokenizeRequest{Request: other}, codes.NotFound, ""},
		{&processorv1.TokenizeRequest{Request: &generationv1.Request{Model: modelName}}, codes.InvalidArgument, "prompt"},
		{&processorv1.TokenizeRequest{Request: tokensOf(modelName, 1)}, codes.InvalidArgument, "prompt"},
		{&processorv1.TokenizeRequest{Request: request(strings.Repeat("x", 900), 1), ReturnTexts: true}, codes.InvalidArgument, "return_token_strs"},
	} {
		if _, err := h.Tokenize(t.Context(), c.in); rpc.Code(err) != c.code || rpc.Field(err) != c.field {
			t.Errorf("%v: %v, want %v of %q", c.in, err, c.code, c.field)
		}
	}
	for _, c := range []struct {
		in    *generationv1.Request
		code  codes.Code
		field string
	}{
		{nil, codes.InvalidArgument, "model"},
		{tokensOf("other", 1), codes.NotFound, ""},
		{request("x", 1), codes.InvalidArgument, "tokens"},
		{tokensOf(modelName, 1<<30), codes.InvalidArgument, "tokens"},
		{tokensOf(modelName, promptTokens(strings.Repeat("x", 1001))...), codes.InvalidArgument, "tokens"},
	} {
		if _, err := h.Detokenize(t.Context(), &processorv1.DetokenizeRequest{Request: c.in}); rpc.Code(err) != c.code || rpc.Field(err) != c.field {
			t.Errorf("%v: %v, want %v of %q", c.in, err, c.code, c.field)
		}
	}
}
