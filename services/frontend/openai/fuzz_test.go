package openai

import (
	"encoding/json"
	"errors"
	"testing"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// checkParsed makes sure that what is accepted passes the check that typed requests pass,
// and what is refused is an OpenAI error with a message.
func checkParsed(t *testing.T, req *generationv1.Request, err error, check func(*generationv1.Request) error) {
	t.Helper()
	if err == nil {
		if err := check(req); err != nil || req.GetInput() == nil {
			t.Errorf("accepted %v: %v", req, err)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Message == "" || e.HTTPStatus < 400 || e.HTTPStatus > 499 || !json.Valid(e.AppendJSON(nil)) {
		t.Errorf("refused with %#v", err)
	}
	if req != nil {
		t.Errorf("refused, with a request %v", req)
	}
}

func FuzzParseChat(f *testing.F) {
	f.Add([]byte(`{"model":"m",` + okMessages + `}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\u00e9"}]}],"stream":true,"stream_options":{"include_usage":true}}`))
	f.Add([]byte(`{"model":"m",` + okMessages + `,"n":2,"logprobs":true,"top_logprobs":20,"logit_bias":{"5":-100},"min_p":0.1,"top_k":-1,"tools":[]}`))
	f.Add([]byte(`{"model":"m",` + okMessages + `,"chat_template_kwargs":{"a":[{}]},"continue_final_message":true,"reasoning_effort":"xhigh","metadata":{"a":"b"}}`))
	f.Add([]byte(`{"model":"m",` + okMessages + `,"stop_token_ids":[1,2.0],"min_tokens":3,"max_tokens":3,"seed":-1,"priority":-5,"cache_salt":"s"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		ignored := &Ignored{}
		req, err := ParseChat(body, ignored)
		checkHeader(t, ignored.Header())
		checkParsed(t, req, err, CheckChat)
	})
}

func FuzzParseCompletion(f *testing.F) {
	f.Add([]byte(`{"model":"m","prompt":[1,2,3],"stop":["a"],"temperature":1e0,"top_p":0.5,"n":1}`))
	f.Add([]byte(`{"model":"m","prompt":[["a"]],"logit_bias":{}}`))
	f.Add([]byte(`{"model":"m","prompt":["a","b"],"n":2,"best_of":3,"echo":true}`))
	f.Add([]byte(`{"model":"m","prompt":[[1],[2]],"logprobs":5,"return_token_ids":true,"include_stop_str_in_output":true}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		ignored := &Ignored{}
		req, err := ParseCompletion(body, ignored)
		checkHeader(t, ignored.Header())
		checkParsed(t, req, err, CheckCompletion)
	})
}

func FuzzParseTokenize(f *testing.F) {
	f.Add([]byte(`{"model":"m","prompt":"x","add_special_tokens":false,"return_token_strs":true}`))
	f.Add([]byte(`{"model":"m",` + okMessages + `,"add_generation_prompt":null,"x":[{}]}`))
	f.Add([]byte(`{"model":"m",` + okMessages + `,"continue_final_message":true,"chat_template_kwargs":{"x":1}}`))
	f.Add([]byte(`{"model":"m","tokens":[1,2,3]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		ignored := &Ignored{}
		tokenize, err := ParseTokenize(body, ignored)
		checkHeader(t, ignored.Header())
		checkParsed(t, tokenize.GetTyped(), err, CheckTokenize)
		detokenize, err := ParseDetokenize(body, &Ignored{})
		checkParsed(t, detokenize, err, CheckDetokenize)
	})
}
