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

// The objects of a stream. A whole text completion has the name of its chunks.
const (
	chatObject = "chat.completion.chunk"
	textObject = "text_completion"
)

// Keepalive is a comment to a client of server-sent events.
const Keepalive = ": keepalive\n\n"

// Encoder writes the messages of one answer as OpenAI JSON, or as server-sent events. The
// zero value works. It keeps what the chunks of one answer have in common, and is used by
// one goroutine.
type Encoder struct {
	asked   asked
	head    []byte // an event up to its choices; empty until the first chunk
	headOf  *generationv1.Chunk
	choices map[uint32]progress
	recent  int64 // the number of a choice that has started, and 1; 0 before any has
}

// asked is what a client wants to see. Members that it did not ask for do not show.
type asked struct {
	usage        bool // then every chunk has the member, null until the last
	logprobs     bool
	alternatives bool // more than the log-probability of the token itself
	tokenIDs     bool
}

// more tells whether an event may have more than text.
func (a *asked) more() bool { return a.logprobs || a.tokenIDs }

// progress is how far a choice of a stream has come.
type progress struct {
	started bool
	chars   int // written
}

// Answer makes the encoder show what req asks for. It comes before the first message.
func (e *Encoder) Answer(req *generationv1.Request) {
	e.asked = asked{
		usage: req.GetIncludeUsage(), logprobs: req.Logprobs != nil, alternatives: req.GetLogprobs() > 0, tokenIDs: req.GetReturnTokenIds(),
	}
}

// AppendChat appends one message of a chat completion; several events, or nothing, if so it is.
func (e *Encoder) AppendChat(dst []byte, r *frontendv1.ChatCompletionsResponse) []byte {
	switch r := r.GetResponse().(type) {
	case *frontendv1.ChatCompletionsResponse_Completion:
		return e.appendWhole(dst, r.Completion, true)
	case *frontendv1.ChatCompletionsResponse_Chunks:
		for _, c := range r.Chunks.GetChunks() {
			dst = e.appendChatChunk(dst, c)
		}
		return dst
	case *frontendv1.ChatCompletionsResponse_Done:
		return e.appendDone(dst, chatObject, r.Done)
	}
	return dst
}

// AppendCompletion appends one message of a text completion, as AppendChat does.
func (e *Encoder) AppendCompletion(dst []byte, r *frontendv1.CompletionsResponse) []byte {
	switch r := r.GetResponse().(type) {
	case *frontendv1.CompletionsResponse_Completion:
		return e.appendWhole(dst, r.Completion, false)
	case *frontendv1.CompletionsResponse_Chunks:
		for _, c := range r.Chunks.GetChunks() {
			dst = e.appendTextChunk(dst, c)
		}
		return dst
	case *frontendv1.CompletionsResponse_Done:
		return e.appendDone(dst, textObject, r.Done)
	}
	return dst
}

// appendChatChunk appends up to three events: the role before the first piece, the piece,
// and the reason of the end.
func (e *Encoder) appendChatChunk(dst []byte, c *generationv1.Chunk) []byte {
	if e.recent != int64(c.GetChoice())+1 { // as a rule there is but one choice
		dst = e.appendRole(dst, c)
	}
	ends := c.GetFinishReason() != generationv1.FinishReason_FINISH_REASON_UNSPECIFIED
	says := c.GetText() != "" || e.asked.more() && e.saysMore(c, ends)
	if says {
		dst = e.open(dst, chatObject, c)
		dst = append(dst, `"delta":{"content":"`...)
		dst = e.appendPieceEnd(appendEscaped(dst, c.GetText()), c)
	}
	if ends {
		dst = e.open(dst, chatObject, c)
		dst = append(dst, `"delta":{},"logprobs":null,"finish_reason":`...)
		dst = appendFinish(dst, c.GetFinishReason())
		if !says {
			dst = e.appendTokenIDs(dst, c.GetTokenIds())
		}
		dst = e.close(append(dst, "}]"...))
	}
	return dst
}

// appendRole appends the event before the first piece of a choice.
func (e *Encoder) appendRole(dst []byte, c *generationv1.Chunk) []byte {
	first := e.recent == 0
	if !e.start(c) {
		return dst
	}
	dst = e.open(dst, chatObject, c)
	dst = append(dst, `"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	if first && e.asked.tokenIDs { // all choices have one prompt
		dst = appendIDs(append(dst, `,"prompt_token_ids":`...), c.GetPromptTokenIds())
	}
	return e.close(dst)
}

// saysMore tells whether a chunk without text has an event all the same. The end has one
// that ids can go into.
func (e *Encoder) saysMore(c *generationv1.Chunk, ends bool) bool {
	return e.asked.logprobs && len(c.GetLogprobs()) > 0 || e.asked.tokenIDs && len(c.GetTokenIds()) > 0 && !ends
}

// appendPieceEnd appends the rest of an event after a chat's text.
func (e *Encoder) appendPieceEnd(dst []byte, c *generationv1.Chunk) []byte {
	if !e.asked.more() { // as a rule
		return e.close(append(dst, `"},"logprobs":null,"finish_reason":null}]`...))
	}
	dst = append(dst, `"},"logprobs":`...)
	dst = e.appendChatLogprobs(dst, c.GetLogprobs())
	dst = append(dst, `,"finish_reason":null`...)
	return e.close(append(e.appendTokenIDs(dst, c.GetTokenIds()), "}]"...))
}

// appendTextChunk appends an event, unless there is nothing to tell.
func (e *Encoder) appendTextChunk(dst []byte, c *generationv1.Chunk) []byte {
	prompt := c.GetPromptTokenIds()
	if c.GetText() == "" && c.GetFinishReason() == generationv1.FinishReason_FINISH_REASON_UNSPECIFIED &&
		!(e.asked.logprobs && len(c.GetLogprobs()) > 0) && !(e.asked.tokenIDs && len(c.GetTokenIds())+len(prompt) > 0) {
		return dst
	}
	dst = e.open(dst, textObject, c)
	dst = append(dst, `"text":"`...)
	dst = appendEscaped(dst, c.GetText())
	dst = append(dst, `","logprobs":`...)
	dst = e.appendTextLogprobs(dst, c)
	dst = append(dst, `,"finish_reason":`...)
	dst = appendFinish(dst, c.GetFinishReason())
	dst = e.appendTokenIDs(dst, c.GetTokenIds())
	if e.asked.tokenIDs && len(prompt) > 0 {
		dst = appendIDs(append(dst, `,"prompt_token_ids":`...), prompt)
	}
	return e.close(append(dst, "}]"...))
}

// appendTokenIDs appends the member of a choice where it was asked for and there are any.
func (e *Encoder) appendTokenIDs(dst []byte, ids []uint32) []byte {
	if !e.asked.tokenIDs || len(ids) == 0 {
		return dst
	}
	return appendIDs(append(dst, `,"token_ids":`...), ids)
}

// start tells whether c is the first chunk of its choice.
func (e *Encoder) start(c *generationv1.Chunk) bool {
	e.recent = int64(c.GetChoice()) + 1
	p := e.choices[c.GetChoice()]
	if p.started {
		return false
	}
	p.started = true
	e.set(c.GetChoice(), p)
	return true
}

func (e *Encoder) set(choice uint32, p progress) {
	if e.choices == nil {
		e.choices = make(map[uint32]progress, 1)
	}
	e.choices[choice] = p
}

// open appends an event up to the inside of its one choice. Whoever calls it ends that and
// the choices; close ends the event.
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
	if e.asked.usage {
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
