package frontend_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

func TestTokenizeAndDetokenizeOverHTTP(t *testing.T) {
	url := serve(t, &processor{}, nil)
	for _, c := range []struct {
		path, body   string
		status       int
		want         string // the answer, or
		param, code  string
		ignoredNames string
	}{
		{path: "/tokenize", body: `{"model":"acme/echo","prompt":"ab"}`, status: 200, want: `{"count":2,"max_model_len":8192,"tokens":[97,98],"token_strs":null}`},
		{path: "/tokenize", body: `{"model":"acme/echo","prompt":"a","return_token_strs":true,"x":1}`, status: 200, ignoredNames: "x",
			want: `{"count":1,"max_model_len":8192,"tokens":[97],"token_strs":["a"]}`},
		{path: "/detokenize", body: `{"model":"acme/echo","tokens":[97,98],"y":{}}`, status: 200, ignoredNames: "y", want: `{"prompt":"ab"}`},
		{path: "/tokenize", body: `{"model":"acme/echo"}`, status: 400, param: "prompt", code: "missing_required_parameter"},
		{path: "/tokenize", body: `{"model":"other","prompt":"x"}`, status: 404, param: "model", code: "model_not_found"},
		{path: "/detokenize", body: `{"model":"other","tokens":[]}`, status: 404, param: "model", code: "model_not_found"},
		{path: "/detokenize", body: `{"model":"acme/echo","tokens":[128]}`, status: 400, param: "tokens", code: "invalid_value"},
		{path: "/detokenize", body: `{`, status: 400, param: "null", code: "null"},
	} {
		resp, body := post(t, url+c.path, c.body)
		if resp.StatusCode != c.status || resp.Header.Get("X-Switchyard-Ignored") != c.ignoredNames || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v %s", c.body, resp.StatusCode, resp.Header, body)
		}
		if c.status == 200 {
			if body != c.want {
				t.Errorf("%s: %s, want %s", c.body, body, c.want)
			}
		} else if e := failureOf(t, body); deref(e.Param) != c.param || deref(e.Code) != c.code {
			t.Errorf("%s: %s", c.body, body)
		}
	}
}

func TestTheProcessorGetsTheOptionsOfTokenize(t *testing.T) {
	p := &processor{}
	url := serve(t, p, nil)
	post(t, url+"/tokenize", chatBody("hi", `,"add_special_tokens":true,"add_generation_prompt":false,"return_token_strs":true`))
	yes, no := true, false
	want := &processorv1.TokenizeRequest{AddSpecialTokens: &yes, ReturnTexts: true}
	want.Request = &generationv1.Request{Model: model, Sampling: &generationv1.Sampling{}, Limits: &generationv1.Limits{},
		Input: &generationv1.Request_Chat{Chat: &generationv1.Chat{
			AddGenerationPrompt: &no, Messages: []*generationv1.Message{{Role: "user", Content: "hi"}},
		}}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(want, p.tokenize, protocmp.Transform()); diff != "" {
		t.Errorf("the processor's request (-want +got):\n%s", diff)
	}
}

func TestTypedCallersTokenize(t *testing.T) {
	client := start(t, &processor{})
	r, err := client.Tokenize(t.Context(), &frontendv1.TokenizeRequest{ReturnTexts: true, Request: &frontendv1.TokenizeRequest_Typed{
		Typed: &generationv1.Request{Model: model, Input: &generationv1.Request_Text{Text: "a"}},
	}})
	if err != nil || len(r.GetTokens()) != 1 || len(r.GetTexts()) != 1 || r.GetContextTokens() != 8192 {
		t.Errorf("%v, %v", r, err)
	}
	ids := &generationv1.Request{Model: model, Input: &generationv1.Request_TokenIds{TokenIds: &generationv1.TokenIds{Ids: r.GetTokens()}}}
	back, err := client.Detokenize(t.Context(), &frontendv1.DetokenizeRequest{Request: &frontendv1.DetokenizeRequest_Typed{Typed: ids}})
	if err != nil || back.GetText() != "a" {
		t.Errorf("%v, %v", back, err)
	}
	_, err = client.Detokenize(t.Context(), &frontendv1.DetokenizeRequest{Request: &frontendv1.DetokenizeRequest_Typed{Typed: hello()}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a chat: %v", err)
	}
}
