package openai

import (
	"strconv"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// Content types of answers.
const (
	ContentTypeJSON   = "application/json"
	ContentTypeStream = "text/event-stream; charset=utf-8"
)

// keepalive is a comment to a client of server-sent events.
const keepalive = ": keepalive\n\n"

// Encoder writes the messages of one answer as OpenAI JSON, or as server-sent events. The
// zero value works. It keeps what the chunks of one answer have in common, and is used by
// one goroutine.
type Encoder struct {
	// IncludeUsage says that the client asked for the usage: then every chunk has the
	// member, null until the last.
	IncludeUsage bool

	head    []byte // an event up to its choices; empty until the first chunk
	headOf  *generationv1.Chunk
	started map[uint32]bool // choices whose role was sent
}

// AppendChat appends one message of a chat completion; several events, or nothing, if so it is.
func (e *Encoder) AppendChat(dst []byte, r *frontendv1.ChatCompletionsResponse) []byte {
	switch r := r.GetResponse().(type) {
	case *frontendv1.ChatCompletionsResponse_Completion:
		return appendChatCompletion(dst, r.Completion)
	case *frontendv1.ChatCompletionsResponse_Chunk:
		return e.appendChatChunk(dst, r.Chunk)
	case *frontendv1.ChatCompletionsResponse_Done:
		return e.appendDone(dst, "chat.completion.chunk", r.Done)
	case *frontendv1.ChatCompletionsResponse_Keepalive:
		return append(dst, keepalive...)
	}
	return dst
}

// AppendCompletion appends one message of a text completion, as AppendChat does.
func (e *Encoder) AppendCompletion(dst []byte, r *frontendv1.CompletionsResponse) []byte {
	switch r := r.GetResponse().(type) {
	case *frontendv1.CompletionsResponse_Completion:
		return appendTextCompletion(dst, r.Completion)
	case *frontendv1.CompletionsResponse_Chunk:
		return e.appendTextChunk(dst, r.Chunk)
	case *frontendv1.CompletionsResponse_Done:
		return e.appendDone(dst, "text_completion", r.Done)
	case *frontendv1.CompletionsResponse_Keepalive:
		return append(dst, keepalive...)
	}
	return dst
}

// appendChatChunk appends up to three events: the role before the first piece, the piece,
// and the reason of the end.
func (e *Encoder) appendChatChunk(dst []byte, c *generationv1.Chunk) []byte {
	if e.start(c) {
		dst = e.open(dst, "chat.completion.chunk", c)
		dst = append(dst, `"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null`...)
		dst = e.close(dst)
	}
	if c.GetText() != "" {
		dst = e.open(dst, "chat.completion.chunk", c)
		dst = append(dst, `"delta":{"content":"`...)
		dst = appendEscaped(dst, c.GetText())
		dst = append(dst, `"},"logprobs":null,"finish_reason":null`...)
		dst = e.close(dst)
	}
	if c.GetFinishReason() != generationv1.FinishReason_FINISH_REASON_UNSPECIFIED {
		dst = e.open(dst, "chat.completion.chunk", c)
		dst = append(dst, `"delta":{},"logprobs":null,"finish_reason":`...)
		dst = appendFinish(dst, c.GetFinishReason())
		dst = e.close(dst)
	}
	return dst
}

// appendTextChunk appends an event, unless there is nothing to tell.
func (e *Encoder) appendTextChunk(dst []byte, c *generationv1.Chunk) []byte {
	if c.GetText() == "" && c.GetFinishReason() == generationv1.FinishReason_FINISH_REASON_UNSPECIFIED {
		return dst
	}
	dst = e.open(dst, "text_completion", c)
	dst = append(dst, `"text":"`...)
	dst = appendEscaped(dst, c.GetText())
	dst = append(dst, `","logprobs":null,"finish_reason":`...)
	dst = appendFinish(dst, c.GetFinishReason())
	return e.close(dst)
}

// start tells whether c is the first chunk of its choice.
func (e *Encoder) start(c *generationv1.Chunk) bool {
	if e.started[c.GetChoice()] {
		return false
	}
	if e.started == nil {
		e.started = make(map[uint32]bool, 1)
	}
	e.started[c.GetChoice()] = true
	return true
}

// open appends an event up to the inside of its one choice; close ends both.
func (e *Encoder) open(dst []byte, object string, c *generationv1.Chunk) []byte {
	if !e.sameHead(c) {
		e.headOf = c
		e.head = append(appendHead(append(e.head[:0], "data: "...), object, c), `,"choices":[{"index":`...)
	}
	dst = append(dst, e.head...)
	dst = strconv.AppendUint(dst, uint64(c.GetChoice()), 10)
	return append(dst, ',')
}

func (e *Encoder) sameHead(c *generationv1.Chunk) bool {
	h := e.headOf
	return h != nil && h.GetId() == c.GetId() && h.GetModel() == c.GetModel() && h.GetCreated().GetSeconds() == c.GetCreated().GetSeconds()
}

func (e *Encoder) close(dst []byte) []byte {
	dst = append(dst, `}]`...)
	if e.IncludeUsage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

// appendDone appends the usage, if there is one, and the end mark.
func (e *Encoder) appendDone(dst []byte, object string, d *frontendv1.Done) []byte {
	if d.GetUsage() != nil {
		dst = appendHead(append(dst, "data: "...), object, d.GetLast())
		dst = append(dst, `,"choices":[],"usage":`...)
		dst = append(appendUsage(dst, d.GetUsage()), "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}
