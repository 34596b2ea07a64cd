package openai

import (
	"strconv"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// ownedBy is who serves a model, where the owner is not told.
const ownedBy = "switchyard"

// head is what every object of an answer begins with.
type head interface {
	GetId() string
	GetCreated() *timestamppb.Timestamp
	GetModel() string
}

// appendHead appends an object up to its model, and leaves it open.
func appendHead(dst []byte, object string, h head) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendQuoted(dst, h.GetId())
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, h.GetCreated().GetSeconds(), 10)
	dst = append(dst, `,"model":`...)
	return appendQuoted(dst, h.GetModel())
}

// appendWhole appends a whole answer, to a chat or to a text.
func (e *Encoder) appendWhole(dst []byte, c *generationv1.Completion, chat bool) []byte {
	object, appendBody := textObject, e.appendText
	if chat {
		object, appendBody = "chat.completion", e.appendMessage
	}
	dst = appendHead(dst, object, c)
	dst = append(dst, `,"choices":[`...)
	for i, choice := range c.GetChoices() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendUint(dst, uint64(choice.GetIndex()), 10)
		dst = appendBody(append(dst, ','), choice)
		dst = append(dst, `,"finish_reason":`...)
		dst = appendFinish(dst, choice.GetFinishReason())
		if e.asked.tokenIDs {
			dst = appendIDs(append(dst, `,"token_ids":`...), choice.GetTokenIds())
		}
		if e.asked.tokenIDs && !chat { // each choice may have a prompt of its own
			dst = appendIDs(append(dst, `,"prompt_token_ids":`...), choice.GetPromptTokenIds())
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, c.GetUsage())
	if e.asked.tokenIDs && chat && len(c.GetChoices()) > 0 {
		dst = appendIDs(append(dst, `,"prompt_token_ids":`...), c.GetChoices()[0].GetPromptTokenIds())
	}
	return append(dst, '}')
}

func (e *Encoder) appendMessage(dst []byte, choice *generationv1.Choice) []byte {
	dst = append(dst, `"message":{"role":"assistant","content":`...)
	dst = appendQuoted(dst, choice.GetText())
	dst = append(dst, `,"refusal":null,"annotations":[]},"logprobs":`...)
	if e.asked.logprobs && len(choice.GetLogprobs()) == 0 {
		return append(dst, `{"content":[],"refusal":null}`...)
	}
	return e.appendChatLogprobs(dst, choice.GetLogprobs())
}

func (e *Encoder) appendText(dst []byte, choice *generationv1.Choice) []byte {
	dst = append(dst, `"text":`...)
	dst = appendQuoted(dst, choice.GetText())
	dst = append(dst, `,"logprobs":`...)
	if !e.asked.logprobs {
		return append(dst, "null"...)
	}
	dst, _ = e.appendTextTokens(dst, choice.GetLogprobs(), 0)
	return dst
}

// appendIDs appends an array of token ids.
func appendIDs(dst []byte, ids []uint32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	return append(dst, ']')
}

func appendUsage(dst []byte, u *generationv1.Usage) []byte {
	prompt, completion := uint64(u.GetPromptTokens()), uint64(u.GetCompletionTokens())
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendUint(dst, prompt, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendUint(dst, completion, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendUint(dst, prompt+completion, 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendUint(dst, uint64(u.GetCachedTokens()), 10)
	return append(dst, `}}`...)
}

func appendFinish(dst []byte, r generationv1.FinishReason) []byte {
	switch r {
	case generationv1.FinishReason_FINISH_REASON_STOP:
		return append(dst, `"stop"`...)
	case generationv1.FinishReason_FINISH_REASON_LENGTH:
		return append(dst, `"length"`...)
	}
	return append(dst, "null"...)
}

// AppendVersion appends the answer of /version, which is vLLM's.
func AppendVersion(dst []byte, version string) []byte {
	dst = appendQuoted(append(dst, `{"version":`...), version)
	return append(dst, '}')
}

// AppendModels appends the list of models.
func AppendModels(dst []byte, models []*frontendv1.Model) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, m := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, m)
	}
	return append(dst, `]}`...)
}

// AppendModel appends one model. max_model_len is an extension that other servers have too.
func AppendModel(dst []byte, m *frontendv1.Model) []byte {
	owner := m.GetOwnedBy()
	if owner == "" {
		owner = ownedBy
	}
	dst = append(dst, `{"id":`...)
	dst = appendQuoted(dst, m.GetId())
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, m.GetCreatedUnix(), 10)
	dst = append(dst, `,"owned_by":`...)
	dst = appendQuoted(dst, owner)
	if m.GetContextTokens() > 0 {
		dst = append(dst, `,"max_model_len":`...)
		dst = strconv.AppendUint(dst, uint64(m.GetContextTokens()), 10)
	}
	return append(dst, '}')
}
