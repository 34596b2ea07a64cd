package openai

import (
	"unicode/utf8"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// checkTexts makes sure that the texts of a typed request are UTF-8: in this process no
// decoder has looked at them. Those of JSON are.
func checkTexts(req *generationv1.Request) error {
	for _, field := range [...]struct{ param, text string }{
		{"model", req.GetModel()}, {"request_id", req.GetRequestId()}, {"cache_salt", req.GetCacheSalt()},
		{"prompt_cache_key", req.GetSession()}, {"decode_worker", req.GetDecodeWorker()},
		{"prompt", req.GetText()}, {"reasoning_effort", req.GetChat().GetReasoningEffort()},
	} {
		if !utf8.ValidString(field.text) {
			return badText(field.param)
		}
	}
	for i, stop := range req.GetLimits().GetStop() {
		if !utf8.ValidString(stop) {
			return badText(at("stop", i))
		}
	}
	for i, prompt := range req.GetPrompts().GetPrompts() {
		if !utf8.ValidString(prompt.GetText()) {
			return badText(at("prompt", i))
		}
	}
	for i, m := range req.GetChat().GetMessages() {
		if !utf8.ValidString(m.GetContent()) || !utf8.ValidString(m.GetName()) || !utf8.ValidString(m.GetRole()) {
			return badText(at("messages", i))
		}
	}
	return nil
}

func badText(param string) *Error {
	return bad("invalid_value", param, "Invalid '%s': expected a string of valid UTF-8.", param)
}
