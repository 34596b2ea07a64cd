package openai

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// endpoint is one of the two bodies.
type endpoint struct {
	name  string
	head  string
	parse func([]byte, *Ignored) (*generationv1.Request, error)
}

var (
	chatEndpoint = endpoint{"chat", `{"model":"m",` + okMessages, ParseChat}
	textEndpoint = endpoint{"completion", `{"model":"m","prompt":"hi"`, ParseCompletion}
	both         = []endpoint{chatEndpoint, textEndpoint}
	onlyChat     = both[:1]
	onlyText     = both[1:]
)

// bad1 is a value that is refused.
type bad1 struct{ value, code, message string }

// pairs makes an object of so many members, "0":value and on.
func pairs(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":%s`, i, value)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

func list(n int, value string) string {
	return "[" + strings.TrimPrefix(strings.Repeat(","+value, n), ",") + "]"
}

const (
	low, high, kind = "_below_min_value", "_above_max_value", "invalid_type"
	unsupported     = "unsupported_value"
)

var parameters = []struct {
	name string
	on   []endpoint
	with string // further members
	good []string
	bad  []bad1
}{
	{name: "n", on: both, good: []string{"1", "128", "2.0", "1e2"}, bad: []bad1{
		{"0", "integer" + low, ">= 1, but got 0"}, {"129", "integer" + high, "<= 128"}, {"-1", "integer" + low, ""},
		{"1e300", kind, ""}, {"1.5", kind, "a decimal"}, {`"2"`, kind, ""}, {"[1]", kind, ""}, {"9223372036854775808", "integer" + high, ""},
	}},
	{name: "presence_penalty", on: both, good: []string{"-2", "2", "0", "1e-50"}, bad: []bad1{
		{"-2.01", "decimal" + low, ">= -2"}, {"2.01", "decimal" + high, "<= 2"}, {`"1"`, kind, "expected a decimal"}, {"true", kind, ""}, {"1e400", "decimal" + high, ""},
	}},
	{name: "frequency_penalty", on: both, good: []string{"-2", "2", "-0.0"}, bad: []bad1{
		{"-2.01", "decimal" + low, ""}, {"2.01", "decimal" + high, ""}, {`{}`, kind, ""},
	}},
	{name: "repetition_penalty", on: both, good: []string{"0.0001", "10", "1e-300"}, bad: []bad1{
		{"0", "decimal" + low, "> 0, but got 0"}, {"-1", "decimal" + low, ""}, {"10.01", "decimal" + high, ""}, {`"1"`, kind, ""},
	}},
	{name: "min_p", on: both, good: []string{"0", "1"}, bad: []bad1{{"-0.1", "decimal" + low, ""}, {"1.1", "decimal" + high, ""}, {`[]`, kind, ""}}},
	{name: "temperature", on: both, good: []string{"0", "2"}, bad: []bad1{{"-0.1", "decimal" + low, ""}, {"2.1", "decimal" + high, ""}, {`"1"`, kind, ""}}},
	{name: "top_p", on: both, good: []string{"0.01", "1"}, bad: []bad1{{"0", "decimal" + low, "> 0"}, {"1.1", "decimal" + high, ""}, {`"1"`, kind, ""}}},
	{name: "top_k", on: both, good: []string{"-1", "0", "4294967295"}, bad: []bad1{{"-2", "integer" + low, ""}, {"4294967296", "integer" + high, ""}, {"1.5", kind, ""}}},
	{name: "seed", on: both, good: []string{"-9223372036854775808", "9223372036854775807"}, bad: []bad1{{"9223372036854775808", "integer" + high, ""}, {`"1"`, kind, ""}}},
	{name: "logit_bias", on: both, good: []string{"{}", `{"0":-100,"4294967295":100}`, pairs(1024, "0")}, bad: []bad1{
		{pairs(1025, "0"), "object_above_max_properties", "1024"}, {`{"01":1}`, "invalid_value", "'01'. Expected token ids"}, {`{"-1":1}`, "invalid_value", ""},
		{`{"+1":1}`, "invalid_value", ""}, {`{"4294967296":1}`, "invalid_value", ""}, {`{"a":1}`, "invalid_value", ""}, {`{"":1}`, "invalid_value", ""}, {`{" 1":1}`, "invalid_value", ""},
		{`{"1":100.1}`, "decimal" + high, "<= 100"}, {`{"1":-100.1}`, "decimal" + low, ""}, {`{"1":"5"}`, kind, "a decimal"}, {`{"1":null}`, kind, ""},
		{"[]", kind, "an object"},
	}},
	{name: "min_tokens", on: both, with: `,"max_tokens":8`, good: []string{"0", "8"}, bad: []bad1{
		{"9", "integer" + high, "'max_tokens', which is 8"}, {"-1", "integer" + low, ""}, {`"1"`, kind, ""}, {"4294967296", "integer" + high, ""},
	}},
	{name: "max_tokens", on: both, good: []string{"1", "4294967295"}, bad: []bad1{{"0", "integer" + low, ""}, {"4294967296", "integer" + high, ""}, {"true", kind, ""}}},
	{name: "stop", on: both, good: []string{`"a"`, `["a","b","c","d"]`, `[]`}, bad: []bad1{{`""`, "empty_string", ""}, {list(5, `"a"`), "array_above_max_length", ""}, {`1`, kind, ""}}},
	{name: "stop_token_ids", on: both, good: []string{"[]", "[0,4294967295]", list(64, "7")}, bad: []bad1{
		{list(65, "7"), "array_above_max_length", "maximum length 64"}, {`5`, kind, "an array"}, {`"a"`, kind, ""},
	}},
	{name: "ignore_eos", on: both, good: []string{"true", "false"}, bad: []bad1{{"1", kind, "a boolean"}, {`"true"`, kind, ""}}},
	{name: "include_stop_str_in_output", on: both, good: []string{"true", "false"}, bad: []bad1{{"1", kind, ""}}},
	{name: "skip_special_tokens", on: both, good: []string{"true", "false"}, bad: []bad1{{"0", kind, ""}}},
	{name: "return_token_ids", on: both, good: []string{"true", "false"}, bad: []bad1{{"0", kind, ""}}},
	{name: "cache_salt", on: both, good: []string{`"a"`, `"` + strings.Repeat("é", 128) + `"`}, bad: []bad1{
		{`""`, "empty_string", ""}, {`"` + strings.Repeat("é", 129) + `"`, "string_above_max_length", "256 bytes"}, {"1", kind, ""},
	}},
	{name: "priority", on: both, good: []string{"-2147483648", "2147483647", "0"}, bad: []bad1{
		{"-2147483649", "integer" + low, ""}, {"2147483648", "integer" + high, ""}, {"0.5", kind, ""},
	}},
	{name: "user", on: both, good: []string{`"u"`, `""`}, bad: []bad1{{"5", kind, ""}}},
	{name: "safety_identifier", on: both, good: []string{`"u"`}, bad: []bad1{{"5", kind, ""}}},
	{name: "metadata", on: both, good: []string{"{}", pairs(16, `"v"`), `{"` + strings.Repeat("é", 64) + `":"` + strings.Repeat("é", 512) + `"}`}, bad: []bad1{
		{pairs(17, `"v"`), "object_above_max_properties", "16"}, {`{"` + strings.Repeat("k", 65) + `":"v"}`, "property_name_above_max_length", "64"}, {"[]", kind, ""},
	}},
	{name: "store", on: both, good: []string{"false"}, bad: []bad1{{"true", unsupported, ""}, {"1", kind, ""}}},
	{name: "service_tier", on: both, good: []string{`"auto"`, `"default"`}, bad: []bad1{{`"flex"`, unsupported, ""}, {`"priority"`, unsupported, ""}, {"1", kind, ""}}},
	{name: "response_format", on: both, good: []string{`{"type":"text"}`}, bad: []bad1{{`{"type":"json_object"}`, unsupported, "json_object"}, {`"text"`, kind, "an object"}}},

	{name: "logprobs", on: onlyChat, good: []string{"true", "false"}, bad: []bad1{{"1", kind, "a boolean"}}},
	{name: "top_logprobs", on: onlyChat, with: `,"logprobs":true`, good: []string{"0", "20"}, bad: []bad1{{"-1", "integer" + low, ""}, {"21", "integer" + high, ""}, {"true", kind, ""}}},
	{name: "top_logprobs", on: onlyChat, with: `,"logprobs":false`, good: []string{"0"}, bad: []bad1{{"1", "invalid_parameter_combination", "'logprobs' is enabled"}, {"5", "invalid_parameter_combination", ""}}},
	{name: "add_generation_prompt", on: onlyChat, good: []string{"true", "false"}, bad: []bad1{{"1", kind, ""}}},
	{name: "continue_final_message", on: onlyChat, good: []string{"true", "false"}, bad: []bad1{{"1", kind, ""}}},
	{name: "continue_final_message", on: onlyChat, with: `,"add_generation_prompt":false`, good: []string{"true", "false"}},
	{name: "continue_final_message", on: onlyChat, with: `,"add_generation_prompt":true`, good: []string{"false"}, bad: []bad1{{"true", "invalid_parameter_combination", "same time"}}},
	{name: "chat_template_kwargs", on: onlyChat, good: []string{"{}", "{ }", `{"b":1,"a":[{"x":null}]}`, `{"x":"` + strings.Repeat("x", maxVariablesBytes-8) + `"}`}, bad: []bad1{
		{`{"x":"` + strings.Repeat("x", maxVariablesBytes-7) + `"}`, "invalid_value", "65536 bytes"}, {"[]", kind, "an object, but got an array"}, {`"a"`, kind, ""},
	}},
	{name: "reasoning_effort", on: onlyChat, good: []string{`"none"`, `"minimal"`, `"low"`, `"medium"`, `"high"`, `"xhigh"`}, bad: []bad1{
		{`"max"`, "invalid_value", "'none', 'minimal'"}, {`""`, "invalid_value", ""}, {"1", kind, ""},
	}},
	{name: "prompt_cache_key", on: onlyChat, good: []string{`"k"`}, bad: []bad1{{"1", kind, ""}}},
	{name: "max_completion_tokens", on: onlyChat, good: []string{"1"}, bad: []bad1{{"0", "integer" + low, ""}}},

	{name: "logprobs", on: onlyText, good: []string{"0", "5"}, bad: []bad1{{"-1", "integer" + low, ""}, {"6", "integer" + high, "<= 5"}, {"true", kind, "an integer"}}},
	{name: "echo", on: onlyText, good: []string{"true", "false"}, bad: []bad1{{"1", kind, ""}}},
	{name: "echo", on: onlyText, with: `,"logprobs":0`, good: []string{"false"}, bad: []bad1{{"true", unsupported, "log probabilities of a prompt"}}},
	{name: "best_of", on: onlyText, good: []string{"1", "128"}, bad: []bad1{{"0", "integer" + low, ""}, {"129", "integer" + high, ""}, {`"2"`, kind, ""}}},
	{name: "best_of", on: onlyText, with: `,"n":3`, good: []string{"3", "4"}, bad: []bad1{{"2", "integer" + low, "'n', which is 3"}}},
	{name: "best_of", on: onlyText, with: `,"n":3,"stream":true`, good: []string{"3"}, bad: []bad1{{"4", "invalid_parameter_combination", "'stream'"}}},
	{name: "suffix", on: onlyText, good: []string{`""`}, bad: []bad1{{`"x"`, unsupported, ""}}},
}

func TestEachParameterAtItsBounds(t *testing.T) {
	for _, p := range parameters {
		for _, e := range p.on {
			for _, value := range append(p.good, "null") {
				if _, err := e.parse([]byte(e.head+p.with+`,"`+p.name+`":`+value+`}`), nil); err != nil {
					t.Errorf("%s: %s %.100s%s: %v", e.name, p.name, value, p.with, err)
				}
			}
			for _, b := range p.bad {
				body := e.head + p.with + `,"` + p.name + `":` + b.value + `}`
				_, err := e.parse([]byte(body), nil)
				expect(t, e.name+" "+body[:min(len(body), 200)], err, p.name, b.code, b.message)
			}
			_, err := e.parse([]byte(e.head+`,"`+p.name+`":null,"`+p.name+`":null}`), nil)
			expect(t, e.name+" twice", err, p.name, "", "duplicate")
		}
	}
}

// Null is the same as leaving a parameter out.
func TestNullIsTheDefault(t *testing.T) {
	for _, p := range parameters {
		for _, e := range p.on {
			plain, err := e.parse([]byte(e.head+`}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.parse([]byte(e.head+`,"`+p.name+`":null}`), nil)
			if diff := cmp.Diff(plain, got, protocmp.Transform()); diff != "" || err != nil {
				t.Errorf("%s %s: %v (-without +null):\n%s", e.name, p.name, err, diff)
			}
		}
	}
}

func TestBadElementsAreNamed(t *testing.T) {
	for _, c := range []struct{ members, param, code string }{
		{`,"stop_token_ids":[1,-1]`, "stop_token_ids[1]", "integer" + low},
		{`,"stop_token_ids":[4294967296]`, "stop_token_ids[0]", "integer" + high},
		{`,"stop_token_ids":["a"]`, "stop_token_ids[0]", kind},
		{`,"metadata":{"a":1}`, "metadata.a", kind},
		{`,"metadata":{"a":"` + strings.Repeat("x", 513) + `"}`, "metadata.a", "string_above_max_length"},
		{`,"logit_bias":{"1":1,"1":2}`, "logit_bias[1]", ""},
		{`,"stream":true,"stream_options":{"continuous_usage_stats":true}`, "stream_options.continuous_usage_stats", unsupported},
	} {
		for _, e := range both {
			_, err := e.parse([]byte(e.head+c.members+`}`), nil)
			expect(t, e.name+c.members, err, c.param, c.code, "")
		}
	}
	for _, e := range both {
		if _, err := e.parse([]byte(e.head+`,"stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":null}}`), nil); err != nil {
			t.Error(err)
		}
	}
}

// What is not built is refused by its name, and accepted where it asks for nothing.
func TestWhatIsNotBuiltIsRefused(t *testing.T) {
	for _, c := range []struct {
		on      []endpoint
		members []string
	}{
		{both, []string{`"typical_p":0.5`, `"length_penalty":2`, `"use_beam_search":true`, `"return_tokens_as_token_ids":true`,
			`"spaces_between_special_tokens":false`, `"bad_words":["a"]`, `"allowed_token_ids":[1]`, `"logits_processors":["a"]`,
			`"prompt_logprobs":0`, `"truncate_prompt_tokens":5`, `"guided_regex":"a"`, `"guided_grammar":"a"`, `"guided_json":{}`,
			`"guided_choice":["a"]`, `"structured_outputs":{}`, `"structural_tag":"a"`, `"store":true`, `"service_tier":"flex"`}},
		{onlyChat, []string{`"tools":[{}]`, `"functions":[{}]`, `"documents":[{}]`, `"tool_choice":"required"`, `"function_call":{"name":"f"}`,
			`"parallel_tool_calls":false`, `"audio":{}`, `"prediction":{}`, `"web_search_options":{}`, `"moderation":{}`, `"verbosity":"low"`,
			`"prompt_cache_retention":"24h"`, `"add_special_tokens":true`, `"echo":true`, `"best_of":2`, `"chat_template":"x"`}},
		{onlyText, []string{`"suffix":"x"`, `"add_special_tokens":false`}},
	} {
		for _, e := range c.on {
			for _, member := range c.members {
				name, _, _ := strings.Cut(strings.TrimPrefix(member, `"`), `"`)
				_, err := e.parse([]byte(e.head+`,`+member+`}`), &Ignored{})
				var refusal *Error
				if !errors.As(err, &refusal) || refusal.Param != name || refusal.Code != unsupported && refusal.Code != "unsupported_parameter" {
					t.Errorf("%s %s: %v", e.name, member, err)
				}
				if _, err := e.parse([]byte(e.head+`,"`+name+`":null}`), nil); err != nil {
					t.Errorf("%s %s: null: %v", e.name, name, err)
				}
			}
		}
	}
}

func TestWholeNumbersMayHaveAFraction(t *testing.T) {
	for value, want := range map[string]uint32{"2.0": 2, "1e2": 100, "1280e-1": 128} {
		got, err := ParseChat([]byte(chatEndpoint.head+`,"n":`+value+`}`), nil)
		if err != nil || got.GetChoices() != want {
			t.Errorf("%s: %d, %v, want %d", value, got.GetChoices(), err, want)
		}
	}
}

func TestPrompts(t *testing.T) {
	text := func(s string) *generationv1.Prompt {
		return &generationv1.Prompt{Prompt: &generationv1.Prompt_Text{Text: s}}
	}
	ids := func(ids ...uint32) *generationv1.Prompt {
		return &generationv1.Prompt{Prompt: &generationv1.Prompt_TokenIds{TokenIds: &generationv1.TokenIds{Ids: ids}}}
	}
	for body, want := range map[string][]*generationv1.Prompt{
		`["a","b"]`:     {text("a"), text("b")},
		`[[1,2],[3]]`:   {ids(1, 2), ids(3)},
		`[[0],[0],[0]]`: {ids(0), ids(0), ids(0)},
	} {
		got, err := ParseCompletion([]byte(`{"model":"m","prompt":`+body+`}`), nil)
		compare(t, got, err, &generationv1.Request{Input: &generationv1.Request_Prompts{Prompts: &generationv1.Prompts{Prompts: want}}})
	}
	for _, c := range []struct{ members, param, code, message string }{
		{`"prompt":["a",1]`, "prompt[1]", kind, "a string"},
		{`"prompt":["a",[1]]`, "prompt[1]", kind, "a string"},
		{`"prompt":[[1],"a"]`, "prompt[1]", kind, "an array"},
		{`"prompt":[[1],1]`, "prompt[1]", kind, "an array"},
		{`"prompt":[1,[1]]`, "prompt[1]", kind, "an integer"},
		{`"prompt":[null]`, "prompt[0]", kind, ""},
		{`"prompt":["a",""]`, "prompt[1]", "empty_string", ""},
		{`"prompt":[[1],[]]`, "prompt[1]", "empty_array", ""},
		{`"prompt":[[1],[-1]]`, "prompt[1][0]", "integer" + low, ""},
		{`"prompt":` + list(2049, `"a"`), "prompt", "array_above_max_length", "2048"},
		{`"prompt":` + list(2049, `[1]`), "prompt", "array_above_max_length", "2048"},
		{`"prompt":` + list(17, `"a"`) + `,"n":128`, "prompt", "invalid_value", "17 prompts with 128 answers"},
		{`"prompt":` + list(1025, `"a"`) + `,"best_of":2`, "prompt", "invalid_value", ""},
	} {
		_, err := ParseCompletion([]byte(`{"model":"m",`+c.members+`}`), nil)
		expect(t, c.members[:min(100, len(c.members))], err, c.param, c.code, c.message)
	}
	for _, members := range []string{`"prompt":` + list(2048, `"a"`), `"prompt":` + list(16, `[1]`) + `,"n":128`, `"prompt":` + list(5000, `1`)} {
		if _, err := ParseCompletion([]byte(`{"model":"m",`+members+`}`), nil); err != nil {
			t.Error(err)
		}
	}
}

// The variables of a template are kept as they are, not as a map would write them.
func TestTemplateVariablesAreKeptVerbatim(t *testing.T) {
	const variables = `{"z": 1.0,  "a":{"b":"\u00e9"}}`
	for _, body := range []string{
		`{"model":"m","chat_template_kwargs":` + variables + `,` + okMessages + `}`,
		`{"model":"m",` + okMessages + `,"chat_template_kwargs": ` + variables + ` }`,
	} {
		got, err := ParseChat([]byte(body), nil)
		if err != nil || string(got.GetChat().GetTemplateVariables()) != variables {
			t.Errorf("%q, %v", got.GetChat().GetTemplateVariables(), err)
		}
	}
	_, err := ParseChat([]byte(`{"model":"m",`+okMessages+`,"chat_template_kwargs":{"a":1,"a":2}}`), nil)
	expect(t, "a duplicate", err, "chat_template_kwargs.a", "", "duplicate")
}

func TestWhatTheOtherEndpointKnowsIsRefused(t *testing.T) {
	chat := func(more string) error {
		_, err := ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],`+more+`}`), &Ignored{})
		return err
	}
	text := func(more string) error {
		_, err := ParseCompletion([]byte(`{"model":"m","prompt":"x",`+more+`}`), &Ignored{})
		return err
	}
	for _, c := range []struct {
		parse func(string) error
		more  string
		param string // empty: accepted
	}{
		{text, `"messages":[]`, "messages"}, {text, `"reasoning_effort":"low"`, "reasoning_effort"}, {text, `"max_completion_tokens":3`, "max_completion_tokens"},
		{text, `"tools":[{}]`, "tools"}, {text, `"chat_template_kwargs":{}`, "chat_template_kwargs"},
		{chat, `"prompt":"x"`, "prompt"}, {chat, `"suffix":"x"`, "suffix"}, {chat, `"echo":true`, "echo"},
		{text, `"messages":null`, ""}, {text, `"tool_choice":null`, ""}, {chat, `"suffix":null`, ""}, {chat, `"surprise":1`, ""},
	} {
		err := c.parse(c.more)
		if e := (*Error)(nil); (err == nil) != (c.param == "") || errors.As(err, &e) && e.Param != c.param {
			t.Errorf("%s: %v, want an error about %q", c.more, err, c.param)
		}
	}
}
