package openai

import (
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// CheckChat checks a typed request for a chat completion; what ParseChat gives passes. It
// names the parameters as OpenAI does. An error is an *Error.
func CheckChat(req *generationv1.Request) error {
	if err := checkTexts(req); err != nil {
		return err
	}
	return checkChat(req)
}

// CheckCompletion checks a typed request for a text completion, as CheckChat does.
func CheckCompletion(req *generationv1.Request) error {
	if err := checkTexts(req); err != nil {
		return err
	}
	return checkCompletion(req)
}

func checkChat(req *generationv1.Request) error {
	if err := check(req, 1); err != nil {
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
			return badRole(at("messages", i)+".role", m.GetRole())
		}
	}
	if req.GetEcho() {
		return bad("unsupported_value", "echo", "Unsupported value: 'echo' is only supported for text completions.")
	}
	return checkTemplate(chat.Chat)
}

func checkCompletion(req *generationv1.Request) error {
	if err := check(req, max(1, len(req.GetPrompts().GetPrompts()))); err != nil {
		return err
	}
	switch input := req.GetInput().(type) {
	case *generationv1.Request_Text:
		return checkPromptText("prompt", input.Text)
	case *generationv1.Request_TokenIds:
		return checkPromptIDs("prompt", input.TokenIds)
	case *generationv1.Request_Prompts:
		return checkPrompts(input.Prompts.GetPrompts())
	}
	return missing("prompt")
}

func checkPrompts(all []*generationv1.Prompt) error {
	if len(all) == 0 {
		return emptyArray("prompt")
	}
	for i, one := range all {
		var err error
		switch input := one.GetPrompt().(type) {
		case *generationv1.Prompt_Text:
			if input.Text == "" { // else the name would be made for each
				err = checkPromptText(at("prompt", i), input.Text)
			}
		case *generationv1.Prompt_TokenIds:
			if len(input.TokenIds.GetIds()) == 0 {
				err = checkPromptIDs(at("prompt", i), input.TokenIds)
			}
		default:
			err = missing(at("prompt", i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkPromptText(param, text string) error {
	if text == "" {
		return emptyString(param)
	}
	return nil
}

func checkPromptIDs(param string, ids *generationv1.TokenIds) error {
	if len(ids.GetIds()) == 0 {
		return emptyArray(param)
	}
	return nil
}

// maxIDBytes bounds the ids and names that travel into logs and metadata.
const maxIDBytes = 256

// check checks what all requests have, in one of so many prompts.
func check(req *generationv1.Request, prompts int) error {
	if req.GetModel() == "" {
		return missing("model")
	}
	if len(req.GetModel()) > maxIDBytes {
		return NoSuchModel(clip(req.GetModel()))
	}
	if len(req.GetRequestId()) > maxIDBytes {
		return longText("request_id", maxIDBytes, " bytes", len(req.GetRequestId()))
	}
	if len(req.GetCacheSalt()) > maxIDBytes {
		return longText("cache_salt", maxIDBytes, " bytes", len(req.GetCacheSalt()))
	}
	if err := checkSampling(req.GetSampling()); err != nil {
		return err
	}
	if err := checkLimits(req.GetLimits()); err != nil {
		return err
	}
	return checkOutput(req, prompts)
}
