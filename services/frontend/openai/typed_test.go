package openai

import (
	"math"
	"strings"
	"testing"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func typedChat() *generationv1.Request {
	return &generationv1.Request{Model: "m", Input: chat(&generationv1.Message{Role: "user", Content: "hi"})}
}

func prompted(all ...*generationv1.Prompt) *generationv1.Request_Prompts {
	return &generationv1.Request_Prompts{Prompts: &generationv1.Prompts{Prompts: all}}
}

// Typed requests pass no parser: the checks see what JSON cannot hold.
func TestTypedRequestsAreChecked(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	sampling := func(s *generationv1.Sampling) func(*generationv1.Request) {
		return func(r *generationv1.Request) { r.Sampling = s }
	}
	limits := func(l *generationv1.Limits) func(*generationv1.Request) {
		return func(r *generationv1.Request) { r.Limits = l }
	}
	bias := func(all ...*generationv1.LogitBias) func(*generationv1.Request) {
		return sampling(&generationv1.Sampling{LogitBias: all})
	}
	for _, c := range []struct {
		name        string
		change      func(*generationv1.Request)
		param, code string // empty: it passes
	}{
		{"least", func(*generationv1.Request) {}, "", ""},
		{"temperature NaN", sampling(&generationv1.Sampling{Temperature: &nan}), "temperature", kind},
		{"top_p NaN", sampling(&generationv1.Sampling{TopP: &nan}), "top_p", kind},
		{"top_p 0", sampling(&generationv1.Sampling{TopP: ptr(float32(0))}), "top_p", "decimal" + low},
		{"min_p NaN", sampling(&generationv1.Sampling{MinP: &nan}), "min_p", kind},
		{"min_p 1", sampling(&generationv1.Sampling{MinP: ptr(float32(1))}), "", ""},
		{"presence_penalty NaN", sampling(&generationv1.Sampling{PresencePenalty: &nan}), "presence_penalty", kind},
		{"presence_penalty ∞", sampling(&generationv1.Sampling{PresencePenalty: &inf}), "presence_penalty", "decimal" + high},
		{"frequency_penalty NaN", sampling(&generationv1.Sampling{FrequencyPenalty: &nan}), "frequency_penalty", kind},
		{"repetition_penalty NaN", sampling(&generationv1.Sampling{RepetitionPenalty: &nan}), "repetition_penalty", kind},
		{"repetition_penalty 0", sampling(&generationv1.Sampling{RepetitionPenalty: ptr(float32(0))}), "repetition_penalty", "decimal" + low},
		{"repetition_penalty ∞", sampling(&generationv1.Sampling{RepetitionPenalty: &inf}), "repetition_penalty", "decimal" + high},
		{"bias NaN", bias(&generationv1.LogitBias{Bias: nan}), "logit_bias", kind},
		{"bias 101", bias(&generationv1.LogitBias{Bias: 101}), "logit_bias", "decimal" + high},
		{"bias nil", bias(nil), "", ""},
		{"bias twice", bias(&generationv1.LogitBias{Token: 5, Bias: 1}, &generationv1.LogitBias{Token: 4}, &generationv1.LogitBias{Token: 5}), "logit_bias", "invalid_value"},
		{"too many biases", bias(make([]*generationv1.LogitBias, 1025)...), "logit_bias", "object_above_max_properties"},
		{"max_tokens 0", limits(&generationv1.Limits{MaxTokens: new(uint32)}), "max_tokens", "integer" + low},
		{"min_tokens above", limits(&generationv1.Limits{MaxTokens: ptr(uint32(3)), MinTokens: 4}), "min_tokens", "integer" + high},
		{"min_tokens alone", limits(&generationv1.Limits{MinTokens: math.MaxUint32}), "", ""},
		{"stop_token_ids", limits(&generationv1.Limits{StopTokenIds: make([]uint32, 65)}), "stop_token_ids", "array_above_max_length"},
		{"stop", limits(&generationv1.Limits{Stop: make([]string, 5)}), "stop", "array_above_max_length"},
		{"an empty stop", limits(&generationv1.Limits{Stop: []string{""}}), "stop", "empty_string"},
		{"a stop of bytes", limits(&generationv1.Limits{Stop: []string{"a", "\xff"}}), "stop[1]", "invalid_value"},
		{"n 128", func(r *generationv1.Request) { r.Choices = 128 }, "", ""},
		{"n 129", func(r *generationv1.Request) { r.Choices = 129 }, "n", "integer" + high},
		{"n huge", func(r *generationv1.Request) { r.Choices = math.MaxUint32 }, "n", "integer" + high},
		{"best_of huge", func(r *generationv1.Request) { r.BestOf = math.MaxUint32 }, "best_of", "integer" + high},
		{"best_of below", func(r *generationv1.Request) { r.Choices, r.BestOf = 3, 2 }, "best_of", "integer" + low},
		{"best_of streamed", func(r *generationv1.Request) { r.BestOf, r.Stream = 2, true }, "best_of", "invalid_parameter_combination"},
		{"logprobs 20", func(r *generationv1.Request) { r.Logprobs = ptr(uint32(20)) }, "", ""},
		{"logprobs 21", func(r *generationv1.Request) { r.Logprobs = ptr(uint32(21)) }, "logprobs", "integer" + high},
		{"echo with logprobs", func(r *generationv1.Request) { r.Echo, r.Logprobs = true, new(uint32) }, "echo", unsupported},
		{"salt", func(r *generationv1.Request) { r.CacheSalt = strings.Repeat("x", 257) }, "cache_salt", "string_above_max_length"},
		{"a salt of bytes", func(r *generationv1.Request) { r.CacheSalt = "\xff" }, "cache_salt", "invalid_value"},
		{"an id of bytes", func(r *generationv1.Request) { r.RequestId = "\xff" }, "request_id", "invalid_value"},
		{"a long id", func(r *generationv1.Request) { r.RequestId = strings.Repeat("x", 257) }, "request_id", "string_above_max_length"},
		{"a session of bytes", func(r *generationv1.Request) { r.Session = "\xff" }, "prompt_cache_key", "invalid_value"},
	} {
		text := &generationv1.Request{Model: "m", Input: &generationv1.Request_Text{Text: "x"}}
		for _, err := range []error{checkChanged(typedChat(), c.change, CheckChat), checkChanged(text, c.change, CheckCompletion)} {
			if c.param == "" {
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				continue
			}
			expect(t, c.name, err, c.param, c.code, "")
		}
	}
}

func checkChanged(r *generationv1.Request, change func(*generationv1.Request), check func(*generationv1.Request) error) error {
	change(r)
	return check(r)
}

func TestTypedChatsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*generationv1.Request)
		param, code string
	}{
		"echo":      {func(r *generationv1.Request) { r.Echo = true }, "echo", unsupported},
		"effort":    {func(r *generationv1.Request) { r.GetChat().ReasoningEffort = "huge" }, "reasoning_effort", "invalid_value"},
		"variables": {func(r *generationv1.Request) { r.GetChat().TemplateVariables = []byte(`[]`) }, "chat_template_kwargs", kind},
		"no JSON":   {func(r *generationv1.Request) { r.GetChat().TemplateVariables = []byte(`{"a":}`) }, "chat_template_kwargs", kind},
		"twice":     {func(r *generationv1.Request) { r.GetChat().TemplateVariables = []byte(`{"a":1,"a":2}`) }, "chat_template_kwargs", kind},
		"bytes":     {func(r *generationv1.Request) { r.GetChat().TemplateVariables = []byte("{\"a\":\"\xff\"}") }, "chat_template_kwargs", kind},
		"too large": {func(r *generationv1.Request) { r.GetChat().TemplateVariables = make([]byte, maxVariablesBytes+1) }, "chat_template_kwargs", "invalid_value"},
		"both heads": {func(r *generationv1.Request) {
			r.GetChat().AddGenerationPrompt, r.GetChat().ContinueFinalMessage = ptr(true), true
		}, "continue_final_message", "invalid_parameter_combination"},
		"content":    {func(r *generationv1.Request) { r.GetChat().Messages[0].Content = "a\xc3" }, "messages[0]", "invalid_value"},
		"role":       {func(r *generationv1.Request) { r.GetChat().Messages[0].Role = "wizard" }, "messages[0].role", "invalid_value"},
		"no message": {func(r *generationv1.Request) { r.GetChat().Messages = nil }, "messages", "empty_array"},
		"a nil one":  {func(r *generationv1.Request) { r.GetChat().Messages[0] = nil }, "messages[0].role", "invalid_value"},
		"prompts":    {func(r *generationv1.Request) { r.Input = prompted(&generationv1.Prompt{}) }, "messages", "missing_required_parameter"},
		"nil chat":   {func(r *generationv1.Request) { r.Input = &generationv1.Request_Chat{} }, "messages", "empty_array"},
	} {
		r := typedChat()
		c.change(r)
		expect(t, name, CheckChat(r), c.param, c.code, "")
	}
	r := typedChat()
	r.GetChat().TemplateVariables, r.GetChat().ReasoningEffort, r.GetChat().ContinueFinalMessage = []byte(`{"a":1}`), "low", true
	if err := CheckChat(r); err != nil {
		t.Error(err)
	}
}

func TestTypedPromptsAreChecked(t *testing.T) {
	text := func(s string) *generationv1.Prompt {
		return &generationv1.Prompt{Prompt: &generationv1.Prompt_Text{Text: s}}
	}
	many := make([]*generationv1.Prompt, 2049)
	for i := range many {
		many[i] = text("x")
	}
	for name, c := range map[string]struct {
		req         *generationv1.Request
		param, code string
	}{
		"none":      {&generationv1.Request{Input: prompted()}, "prompt", "empty_array"},
		"nil":       {&generationv1.Request{Input: &generationv1.Request_Prompts{}}, "prompt", "empty_array"},
		"unset":     {&generationv1.Request{Input: prompted(text("a"), &generationv1.Prompt{})}, "prompt[1]", "missing_required_parameter"},
		"a nil one": {&generationv1.Request{Input: prompted(text("a"), nil)}, "prompt[1]", "missing_required_parameter"},
		"empty":     {&generationv1.Request{Input: prompted(text("a"), text(""))}, "prompt[1]", "empty_string"},
		"no ids": {&generationv1.Request{Input: prompted(&generationv1.Prompt{Prompt: &generationv1.Prompt_TokenIds{}})},
			"prompt[0]", "empty_array"},
		"bytes":            {&generationv1.Request{Input: prompted(text("a"), text("\xff"))}, "prompt[1]", "invalid_value"},
		"too many":         {&generationv1.Request{Input: prompted(many...)}, "prompt", "array_above_max_length"},
		"too many answers": {&generationv1.Request{Input: prompted(many[:1025]...), Choices: 2}, "prompt", "invalid_value"},
		"one of bytes":     {&generationv1.Request{Input: &generationv1.Request_Text{Text: "\xff"}}, "prompt", "invalid_value"},
	} {
		c.req.Model = "m"
		expect(t, name, CheckCompletion(c.req), c.param, c.code, "")
	}
	if err := CheckCompletion(&generationv1.Request{Model: "m", Input: prompted(many[:2048]...)}); err != nil {
		t.Error(err)
	}
}
