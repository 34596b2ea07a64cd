package openai

import (
	"fmt"
	"unicode/utf8"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// CheckChat checks a request for a chat completion, wherever it came from. It names the
// parameters as OpenAI does. An error is an *Error.
func CheckChat(req *generationv1.Request) error {
	if err := check(req); err != nil {
		return err
	}
	chat, ok := req.GetInput().(*generationv1.Request_Chat)
	if !ok {
		return missing("messages")
	}
	if len(chat.Chat.GetMessages()) == 0 {
		return emptyArray("messages")
	}
	for i, m := range chat.Chat.GetMessages() {
		if !knownRole(m.GetRole()) {
			return badRole(fmt.Sprintf("messages[%d].role", i), m.GetRole())
		}
	}
	return nil
}

// CheckCompletion checks a request for a text completion, as CheckChat does.
func CheckCompletion(req *generationv1.Request) error {
	if err := check(req); err != nil {
		return err
	}
	switch input := req.GetInput().(type) {
	case *generationv1.Request_Text:
		if input.Text == "" {
			return bad("empty_string", "prompt", "Invalid 'prompt': empty string. Expected a string with minimum length 1.")
		}
		return nil
	case *generationv1.Request_TokenIds:
		if len(input.TokenIds.GetIds()) == 0 {
			return emptyArray("prompt")
		}
		return nil
	}
	return missing("prompt")
}

// maxIDBytes bounds the ids and names that travel into logs and metadata.
const maxIDBytes = 256

func check(req *generationv1.Request) error {
	if req.GetModel() == "" {
		return missing("model")
	}
	if len(req.GetModel()) > maxIDBytes {
		return NoSuchModel(clip(req.GetModel()))
	}
	if len(req.GetRequestId()) > maxIDBytes || !utf8.ValidString(req.GetRequestId()) {
		return bad("invalid_value", "request_id", "Invalid 'request_id': expected at most %d bytes of UTF-8.", maxIDBytes)
	}
	if err := checkSampling(req.GetSampling()); err != nil {
		return err
	}
	return checkLimits(req.GetLimits())
}

func checkSampling(s *generationv1.Sampling) error {
	if s == nil {
		return nil
	}
	if s.Temperature != nil {
		if err := checkDecimal(func() string { return "temperature" }, float64(*s.Temperature), 0, 2); err != nil {
			return err
		}
	}
	if s.TopP != nil {
		if err := checkDecimal(func() string { return "top_p" }, float64(*s.TopP), 0, 1); err != nil {
			return err
		}
		return checkTopP(float64(*s.TopP))
	}
	return nil
}

// checkTopP refuses the 0 that checkDecimal admits: it would keep no token.
func checkTopP(v float64) error {
	if v == 0 {
		return bad("decimal_below_min_value", "top_p", "Invalid 'top_p': decimal below minimum value. Expected a value > 0, but got 0 instead.")
	}
	return nil
}

func checkLimits(l *generationv1.Limits) error {
	if l == nil {
		return nil
	}
	if l.MaxTokens != nil && *l.MaxTokens == 0 {
		return bad("integer_below_min_value", "max_tokens", "Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got 0 instead.")
	}
	if len(l.Stop) > maxStop {
		return bad("array_above_max_length", "stop",
			"Invalid 'stop': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", maxStop, len(l.Stop))
	}
	for i, stop := range l.Stop {
		if stop == "" {
			return bad("empty_string", "stop", "Invalid 'stop': empty string at index %d. Expected strings with minimum length 1.", i)
		}
	}
	return nil
}
