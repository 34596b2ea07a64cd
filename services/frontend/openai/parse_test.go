package openai

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func ptr[T any](v T) *T { return &v }

func chat(messages ...*generationv1.Message) *generationv1.Request_Chat {
	return &generationv1.Request_Chat{Chat: &generationv1.Chat{Messages: messages}}
}

func tokenIDs(ids ...uint32) *generationv1.Request_TokenIds {
	return &generationv1.Request_TokenIds{TokenIds: &generationv1.TokenIds{Ids: ids}}
}

func TestChatRequestsAreRead(t *testing.T) {
	hi := &generationv1.Message{Role: "user", Content: "hi"}
	for _, c := range []struct {
		name, body string
		want       *generationv1.Request
	}{
		{"least", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, &generationv1.Request{Input: chat(hi)}},
		{"every built parameter",
			`{"messages":[{"content":"be kind","role":"system","name":"s"},{"role":"user","content":"hi"}],"model":"m",
			"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"stop":["a","b"],
			"max_completion_tokens":7,"seed":-1,"temperature":0.5,"top_p":0.25,"top_k":40}`,
			&generationv1.Request{
				Input:  chat(&generationv1.Message{Role: "system", Content: "be kind", Name: "s"}, hi),
				Stream: true, IncludeUsage: true, Limits: &generationv1.Limits{MaxTokens: ptr(uint32(7)), Stop: []string{"a", "b"}},
				Sampling: &generationv1.Sampling{Seed: ptr(^uint64(0)), Temperature: ptr(float32(.5)), TopP: ptr(float32(.25)), TopK: ptr(uint32(40))},
			}},
		{"defaults and nulls of what is not built",
			`{"model":"m","messages":[{"role":"user","content":"hi"}],"n":null,"tools":null,"functions":[],"tool_choice":"none",
			"parallel_tool_calls":true,"frequency_penalty":null,"presence_penalty":null,"logit_bias":{},"logprobs":false,"top_logprobs":null,
			"response_format":{"type":"text"},"store":false,"user":"u","metadata":{"a":"b"},"modalities":["text"],"audio":null,
			"service_tier":"auto","reasoning_effort":null,"prediction":null,"verbosity":"medium","safety_identifier":"x","prompt_cache_key":null,
			"min_p":null,"repetition_penalty":null,"min_tokens":0,"ignore_eos":false,"skip_special_tokens":true,"stop_token_ids":[],
			"chat_template_kwargs":{},"continue_final_message":false,"add_generation_prompt":null,"cache_salt":null,
			"stream":null,"stop":null,"seed":null,"temperature":null,"top_p":null,"max_tokens":null,"max_completion_tokens":null,"stream_options":null}`,
			&generationv1.Request{Input: chat(hi)}},
		{"a session", `{"model":"m","prompt_cache_key":"k","messages":[{"role":"user","content":"hi"}]}`, &generationv1.Request{Input: chat(hi), Session: "k"}},
		{"n as 1.0", `{"model":"m","n":1.0,"messages":[{"role":"user","content":"hi"}]}`, &generationv1.Request{Input: chat(hi), Choices: 1}},
		{"text parts", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"text":"b","type":"text"}]}]}`,
			&generationv1.Request{Input: chat(&generationv1.Message{Role: "user", Content: "a\nb"})}},
		{"an assistant message as the SDK returns it",
			`{"model":"m","messages":[{"role":"assistant","content":"x","refusal":null,"annotations":[],"audio":null,"function_call":null,"tool_calls":null}]}`,
			&generationv1.Request{Input: chat(&generationv1.Message{Role: "assistant", Content: "x"})}},
		{"escapes", `{"model":"m","messages":[{"role":"user","content":"\u00e9\n\ud83d\ude00<|im_end|>"}]}`,
			&generationv1.Request{Input: chat(&generationv1.Message{Role: "user", Content: "é\n😀<|im_end|>"})}},
		{"one stop", `{"model":"m","stop":"x","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`,
			&generationv1.Request{Input: chat(hi), Limits: &generationv1.Limits{Stop: []string{"x"}, MaxTokens: ptr(uint32(3))}}},
		{"a temperature of 0", `{"model":"m","temperature":0,"messages":[{"role":"user","content":"hi"}]}`,
			&generationv1.Request{Input: chat(hi), Sampling: &generationv1.Sampling{Temperature: ptr(float32(0))}}},
		{"a top_p that float32 cannot hold is not 0", `{"model":"m","top_p":1e-200,"messages":[{"role":"user","content":"hi"}]}`,
			&generationv1.Request{Input: chat(hi), Sampling: &generationv1.Sampling{TopP: ptr(float32(1e-45))}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseChat([]byte(c.body), nil)
			compare(t, got, err, c.want)
		})
	}
}

func TestCompletionRequestsAreRead(t *testing.T) {
	text := &generationv1.Request_Text{Text: "hi"}
	for _, c := range []struct {
		name, body string
		want       *generationv1.Request
	}{
		{"text", `{"model":"m","prompt":"hi"}`, &generationv1.Request{Input: text}},
		{"one text in an array", `{"model":"m","prompt":["hi"]}`, &generationv1.Request{Input: text}},
		{"token ids", `{"model":"m","prompt":[0,1,49151,4294967295]}`, &generationv1.Request{Input: tokenIDs(0, 1, 49151, 4294967295)}},
		{"token ids in an array", `{"model":"m","prompt":[[5,6]]}`, &generationv1.Request{Input: tokenIDs(5, 6)}},
		{"defaults and nulls", `{"prompt":"hi","model":"m","best_of":null,"echo":false,"logprobs":null,"suffix":null,"n":null,"logit_bias":null,"user":null}`,
			&generationv1.Request{Input: text}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseCompletion([]byte(c.body), nil)
			compare(t, got, err, c.want)
		})
	}
}

func compare(t *testing.T, got *generationv1.Request, err error, want *generationv1.Request) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	want.Model = "m"
	if want.Sampling == nil {
		want.Sampling = &generationv1.Sampling{}
	}
	if want.Limits == nil {
		want.Limits = &generationv1.Limits{}
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

const okMessages = `"messages":[{"role":"user","content":"hi"}]`

func TestBadChatRequestsNameTheParameter(t *testing.T) {
	with := func(members string) string { return `{"model":"m",` + okMessages + `,` + members + `}` }
	message := func(m string) string { return `{"model":"m","messages":[{"role":"user","content":"hi"},` + m + `]}` }
	for _, c := range []struct{ body, param, code, message string }{
		{`{` + okMessages + `}`, "model", "missing_required_parameter", "model"},
		{`{"model":null,` + okMessages + `}`, "model", "missing_required_parameter", "model"},
		{`{"model":7,` + okMessages + `}`, "model", "invalid_type", "expected a string, but got an integer"},
		{`{"model":"m"}`, "messages", "missing_required_parameter", "messages"},
		{`{"model":"m","messages":[]}`, "messages", "empty_array", "minimum length 1"},
		{`{"model":"m","messages":"hi"}`, "messages", "invalid_type", "expected an array, but got a string"},
		{`{"model":"m","messages":null}`, "messages", "invalid_type", "expected an array, but got null"},
		{`{"model":"m","messages":["hi"]}`, "messages[0]", "invalid_type", "expected an object, but got a string"},
		{message(`{"content":"x"}`), "messages[1].role", "missing_required_parameter", ""},
		{message(`{"role":"user"}`), "messages[1].content", "missing_required_parameter", ""},
		{message(`{"role":"wizard","content":"x"}`), "messages[1].role", "invalid_value", "'wizard'"},
		{message(`{"role":1,"content":"x"}`), "messages[1].role", "invalid_type", "expected a string"},
		{message(`{"role":"user","content":5}`), "messages[1].content", "invalid_type", "expected a string or an array of text parts"},
		{message(`{"role":"assistant","content":null}`), "messages[1].content", "invalid_type", "got null"},
		{message(`{"role":"user","content":[]}`), "messages[1].content", "empty_array", ""},
		{message(`{"role":"user","content":["x"]}`), "messages[1].content[0]", "invalid_type", "expected an object"},
		{message(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"u"}}]}`),
			"messages[1].content[1].type", "invalid_value", "'image_url'"},
		{message(`{"role":"user","content":[{"image_url":{"url":"u"},"type":"image_url"}]}`), "messages[1].content[0].type", "invalid_value", "'image_url'"},
		{message(`{"role":"user","content":[{"type":"text"}]}`), "messages[1].content[0].text", "missing_required_parameter", ""},
		{message(`{"role":"user","content":[{"text":"x"}]}`), "messages[1].content[0].type", "missing_required_parameter", ""},
		{message(`{"role":"user","content":[{"type":"text","text":"x","cache":1}]}`), "messages[1].content[0].cache", "unknown_parameter", ""},
		{message(`{"role":"user","content":"x","extra":1}`), "messages[1].extra", "unknown_parameter", ""},
		{message(`{"role":"assistant","content":"x","tool_calls":[{}]}`), "messages[1].tool_calls", "unsupported_value", ""},
		{with(`"guided_json":{}`), "guided_json", "unsupported_parameter", ""},
		{with(`"frobnicate":1`), "frobnicate", "unknown_parameter", "Unrecognized request argument supplied: frobnicate"},
		{with(`"n":"1"`), "n", "invalid_type", "expected an integer, but got a string"},
		{with(`"tools":[{"type":"function"}]`), "tools", "unsupported_value", ""},
		{with(`"tool_choice":"required"`), "tool_choice", "unsupported_value", ""},
		{with(`"tool_choice":{"type":"function"}`), "tool_choice", "unsupported_value", ""},
		{with(`"response_format":{"type":"json_object"}`), "response_format", "unsupported_value", "json_object"},
		{with(`"response_format":{"json_schema":{},"type":"json_schema"}`), "response_format", "unsupported_value", "json_schema"},
		{with(`"response_format":{}`), "response_format.type", "missing_required_parameter", ""},
		{with(`"store":true`), "store", "unsupported_value", ""},
		{with(`"modalities":["text","audio"]`), "modalities", "unsupported_value", "audio"},
		{with(`"metadata":{"a":1}`), "metadata.a", "invalid_type", ""},
		{with(`"user":5`), "user", "invalid_type", ""},
		{with(`"temperature":2.5`), "temperature", "decimal_above_max_value", "<= 2, but got 2.5"},
		{with(`"temperature":-0.1`), "temperature", "decimal_below_min_value", ">= 0"},
		{with(`"temperature":1e999`), "temperature", "decimal_above_max_value", ""},
		{with(`"temperature":"hot"`), "temperature", "invalid_type", "expected a decimal, but got a string"},
		{with(`"temperature":"NaN"`), "temperature", "invalid_type", ""},
		{with(`"top_p":0`), "top_p", "decimal_below_min_value", "> 0"},
		{with(`"top_p":1.01`), "top_p", "decimal_above_max_value", ""},
		{with(`"max_tokens":0`), "max_tokens", "integer_below_min_value", ">= 1, but got 0"},
		{with(`"max_tokens":1.5`), "max_tokens", "invalid_type", "expected an integer, but got a decimal"},
		{with(`"max_tokens":99999999999999999999999`), "max_tokens", "integer_above_max_value", ""},
		{with(`"max_completion_tokens":-4`), "max_completion_tokens", "integer_below_min_value", ""},
		{with(`"max_tokens":5,"max_completion_tokens":5`), "max_tokens", "invalid_parameter_combination", "same time"},
		{with(`"seed":9223372036854775808`), "seed", "integer_above_max_value", ""},
		{with(`"seed":1.5`), "seed", "invalid_type", ""},
		{with(`"stream":"yes"`), "stream", "invalid_type", "expected a boolean"},
		{with(`"stream_options":{"include_usage":true}`), "stream_options", "invalid_parameter_combination", "'stream' is enabled"},
		{with(`"stream":true,"stream_options":{"include_usage":1}`), "stream_options.include_usage", "invalid_type", ""},
		{with(`"stream":true,"stream_options":{"x":1}`), "stream_options.x", "unknown_parameter", ""},
		{with(`"stream":true,"stream_options":{"include_obfuscation":true}`), "stream_options.include_obfuscation", "unsupported_value", ""},
		{with(`"stop":["a","b","c","d","e"]`), "stop", "array_above_max_length", "maximum length 4"},
		{with(`"stop":[1]`), "stop[0]", "invalid_type", ""},
		{with(`"stop":7`), "stop", "invalid_type", "a string or an array of strings"},
		{with(`"stop":""`), "stop", "empty_string", ""},
		{with(`"model":"again"`), "model", "", "duplicate"},
		{with(`"prompt":"x"`), "prompt", "unknown_parameter", ""},
	} {
		_, err := ParseChat([]byte(c.body), nil)
		expect(t, c.body, err, c.param, c.code, c.message)
	}
}

func TestBadCompletionRequestsNameTheParameter(t *testing.T) {
	with := func(members string) string { return `{"model":"m",` + members + `}` }
	for _, c := range []struct{ body, param, code, message string }{
		{with(`"seed":1`), "prompt", "missing_required_parameter", ""},
		{with(`"prompt":null`), "prompt", "invalid_type", "got null"},
		{with(`"prompt":""`), "prompt", "empty_string", ""},
		{with(`"prompt":[]`), "prompt", "empty_array", ""},
		{with(`"prompt":[[]]`), "prompt[0]", "empty_array", ""},
		{with(`"prompt":[1,"a"]`), "prompt[1]", "invalid_type", "expected an integer"},
		{with(`"prompt":[1,-2]`), "prompt[1]", "integer_below_min_value", ""},
		{with(`"prompt":[4294967296]`), "prompt[0]", "integer_above_max_value", ""},
		{with(`"prompt":[1.5]`), "prompt[0]", "invalid_type", ""},
		{with(`"prompt":{}`), "prompt", "invalid_type", "a string or an array of token ids"},
		{with(`"prompt":"x","suffix":"y"`), "suffix", "unsupported_value", ""},
		{with(`"prompt":"x","max_completion_tokens":1`), "max_completion_tokens", "unknown_parameter", ""},
		{with(`"prompt":"x",` + okMessages), "messages", "unknown_parameter", ""},
	} {
		_, err := ParseCompletion([]byte(c.body), nil)
		expect(t, c.body, err, c.param, c.code, c.message)
	}
}

func expect(t *testing.T, body string, err error, param, code, message string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%s: error %v, want an *Error", body, err)
		return
	}
	if e.HTTPStatus != http.StatusBadRequest || e.Type != "invalid_request_error" || e.Param != param || e.Code != code || !strings.Contains(e.Message, message) {
		t.Errorf("%s:\n got %d %s param %q code %q: %s\nwant param %q code %q: …%s…", body, e.HTTPStatus, e.Type, e.Param, e.Code, e.Message, param, code, message)
	}
}

func TestBrokenJSONTellsThePosition(t *testing.T) {
	for _, c := range []struct{ body, message string }{
		{``, "it is empty"},
		{" \n", "it is empty"},
		{`{"model":"m",}`, "at byte 12 (line 1, column 13)"},
		{"{\"model\":\n \"m\" x}", "(line 2, column 6)"},
		{`{"model":"m"`, "unexpected end, at byte 12"},
		{`{"model":NaN}`, "at byte 9"},
		{`{"model":"m"} {}`, "unexpected data after the object"},
		{"{\"model\":\"\xff\"}", "at byte 10"},
		{`[]`, "expected an object, but got an array"},
		{`"x"`, "expected an object, but got a string"},
		{`not json`, "at byte 1"},
	} {
		_, err := ParseChat([]byte(c.body), nil)
		expect(t, c.body, err, "", code(err), c.message)
	}
}

func code(err error) string {
	var e *Error
	errors.As(err, &e)
	return e.Code
}

// What is nested or repeated without end must cost about what reading it costs.
func TestBombsAreCheap(t *testing.T) {
	const n = 1 << 20
	deep := strings.Repeat("[", n)
	for name, body := range map[string]string{
		"unknown parameter": `{"x":` + deep,
		"tools":             `{"tools":` + deep,
		"metadata":          `{"metadata":` + deep,
		"content":           `{"messages":[{"content":` + deep,
		"part":              `{"messages":[{"content":[{"x":` + deep,
		"variables":         `{"chat_template_kwargs":{"a":` + deep,
		"large variables":   `{"chat_template_kwargs":{"a":"` + deep + `"}}`,
		"biases":            `{"logit_bias":{"1":` + deep,
		"objects":           strings.Repeat(`{"messages":[`, n/16),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseChat([]byte(body), &Ignored{})
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		allocated := after.TotalAlloc - before.TotalAlloc
		if allocated > 4<<20 {
			t.Errorf("%s: %d bytes allocated for %d bytes of body", name, allocated, len(body))
		}
	}
}

func BenchmarkParseChat(b *testing.B) {
	body := []byte(`{"model":"m","stream":true,"temperature":0.7,"messages":[{"role":"system","content":"You are kind."},{"role":"user","content":"` +
		strings.Repeat("The quick brown fox jumps over the lazy dog. ", 200) + `"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseChat(body, nil); err != nil {
			b.Fatal(err)
		}
	}
}
