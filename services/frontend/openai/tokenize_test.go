package openai

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func TestTokenizeRequestsAreRead(t *testing.T) {
	text := func(s string) *generationv1.Request_Text { return &generationv1.Request_Text{Text: s} }
	noHead := chat(&generationv1.Message{Role: "user", Content: "hi"})
	noHead.Chat.AddGenerationPrompt = ptr(false)
	for _, c := range []struct {
		body string
		want *frontendv1.TokenizeRequest
		req  *generationv1.Request
	}{
		{`{"model":"m","prompt":"hi"}`, &frontendv1.TokenizeRequest{}, &generationv1.Request{Input: text("hi")}},
		{`{"model":"m","prompt":"","messages":null,"add_special_tokens":false,"return_token_strs":true}`,
			&frontendv1.TokenizeRequest{AddSpecialTokens: ptr(false), ReturnTexts: true}, &generationv1.Request{Input: text("")}},
		{`{"model":"m",` + okMessages + `,"add_generation_prompt":false,"add_special_tokens":null,"tools":[],"continue_final_message":false}`,
			&frontendv1.TokenizeRequest{}, &generationv1.Request{Input: noHead}},
	} {
		got, err := ParseTokenize([]byte(c.body), nil)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		compare(t, got.GetTyped(), nil, c.req)
		got.Request = nil
		if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.body, diff)
		}
	}
}

func TestBadTokenizeRequestsNameTheParameter(t *testing.T) {
	with := func(members string) string { return `{"model":"m",` + members + `}` }
	for _, c := range []struct{ body, param, code, message string }{
		{`{"prompt":"x"}`, "model", "missing_required_parameter", ""},
		{with(`"add_special_tokens":true`), "prompt", "missing_required_parameter", ""},
		{with(`"prompt":null`), "prompt", "missing_required_parameter", ""},
		{with(`"prompt":["x"]`), "prompt", "invalid_type", "expected a string, but got an array"},
		{with(`"prompt":"x",` + okMessages), "messages", "invalid_parameter_combination", ""},
		{with(`"messages":[]`), "messages", "empty_array", ""},
		{with(`"messages":[{"role":"wizard","content":"x"}]`), "messages[0].role", "invalid_value", ""},
		{with(`"prompt":"x","add_special_tokens":1`), "add_special_tokens", "invalid_type", "a boolean"},
		{with(`"prompt":"x","return_token_strs":"yes"`), "return_token_strs", "invalid_type", ""},
		{with(okMessages + `,"tools":[{}]`), "tools", "unsupported_value", ""},
		{with(`"prompt":"x","what":1`), "what", "unknown_parameter", ""},
		{with(`"prompt":"x","what":null`), "what", "unknown_parameter", ""},
		{with(`"prompt":"x","prompt":"y"`), "prompt", "", "duplicate"},
		{`[]`, "", "invalid_type", ""},
	} {
		_, err := ParseTokenize([]byte(c.body), nil)
		expect(t, c.body, err, c.param, c.code, c.message)
	}
}

func TestDetokenizeRequests(t *testing.T) {
	for body, want := range map[string]*generationv1.Request{
		`{"model":"m","tokens":[]}`:             {Input: tokenIDs()},
		`{"tokens":[0,4294967295],"model":"m"}`: {Input: tokenIDs(0, 4294967295)},
	} {
		got, err := ParseDetokenize([]byte(body), nil)
		compare(t, got, err, want)
	}
	for _, c := range []struct{ body, param, code, message string }{
		{`{"tokens":[1]}`, "model", "missing_required_parameter", ""},
		{`{"model":"m"}`, "tokens", "missing_required_parameter", ""},
		{`{"model":"m","tokens":null}`, "tokens", "missing_required_parameter", ""},
		{`{"model":"m","tokens":"x"}`, "tokens", "invalid_type", "expected an array"},
		{`{"model":"m","tokens":[1,-1]}`, "tokens[1]", "integer_below_min_value", ""},
		{`{"model":"m","tokens":[[1]]}`, "tokens[0]", "invalid_type", ""},
		{`{"model":"m","tokens":[1],"what":1}`, "what", "unknown_parameter", ""},
	} {
		_, err := ParseDetokenize([]byte(c.body), nil)
		expect(t, c.body, err, c.param, c.code, c.message)
	}
}

func TestTokenizedAnswers(t *testing.T) {
	for _, c := range []struct {
		in   *frontendv1.TokenizeResponse
		want string
	}{
		{&frontendv1.TokenizeResponse{ContextTokens: 8}, `{"count":0,"max_model_len":8,"tokens":[],"token_strs":null}`},
		{&frontendv1.TokenizeResponse{Tokens: []uint32{1, 4294967295}, Texts: []string{"a\"", "\n"}},
			`{"count":2,"max_model_len":0,"tokens":[1,4294967295],"token_strs":["a\"","\n"]}`},
	} {
		if got := string(AppendTokenized(nil, c.in)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := string(AppendDetokenized(nil, &frontendv1.DetokenizeResponse{Text: "a\tb"})); got != `{"prompt":"a\tb"}` {
		t.Errorf("got %s", got)
	}
}
