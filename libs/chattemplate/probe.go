package chattemplate

import (
	"context"
	"errors"
	"strings"
)

// takes says which parts of a chat a template looks at. It is found by rendering small
// chats: what the text does not show, or what the template refuses, is not taken. A
// template that looks at something only in company that no probe has is taken for one that
// does not look.
type takes struct{ parts, tools, toolCalls, system, generationPrompt, reasoningEffort bool }

// TakesParts reports whether the template understands content as a list of parts. Where
// it does not, the caller must join text parts to one string first: such a template
// would print the list in Python's notation, or refuse it.
func (t *Template) TakesParts() bool { return t.takes.parts }

// TakesTools reports whether the template writes the tools that it is given. Where it does
// not, a model never hears of them.
func (t *Template) TakesTools() bool { return t.takes.tools }

// TakesToolCalls reports whether the template writes the tool calls of earlier turns.
func (t *Template) TakesToolCalls() bool { return t.takes.toolCalls }

// TakesSystem reports whether the template writes a system message at the head of the chat.
// Where it does not, the caller must refuse one, or put it into the first message of the
// user.
func (t *Template) TakesSystem() bool { return t.takes.system }

// TakesGenerationPrompt reports whether AddGenerationPrompt changes the text. Where it does
// not, the model itself begins the answer, or the template always does.
func (t *Template) TakesGenerationPrompt() bool { return t.takes.generationPrompt }

// TakesReasoningEffort reports whether the variable reasoning_effort changes the text.
func (t *Template) TakesReasoningEffort() bool { return t.takes.reasoningEffort }

// probeText is what the probes look for; nothing in it is quoted by Python or JSON, and no
// template has it.
const probeText = "probe_7f3a"

func (t *Template) probe() takes {
	user := Message{Role: "user", Content: "hello"}
	hostile := false // then one probe is enough
	text := func(in Input) string {
		in.BOS, in.EOS = "<s>", "</s>"
		if hostile {
			return ""
		}
		out, err := t.run(context.Background(), in, Limits{Steps: 100_000, Memory: 2 << 20})
		hostile = errors.Is(err, ErrLimit)
		if err != nil {
			return ""
		}
		return out.String()
	}
	shows := func(in Input) bool { return strings.Contains(text(in), probeText) }

	parts := text(Input{Messages: []Message{{Role: "user", Content: []any{Object{{"type", "text"}, {"text", probeText}}}}}})
	return takes{
		parts:     strings.Contains(parts, probeText) && !strings.Contains(parts, "'"+probeText+"'"),
		tools:     shows(Input{Messages: []Message{user}, Tools: []any{probeTool(probeText)}}),
		toolCalls: shows(Input{Messages: probeCall(user), Tools: []any{probeTool("other")}}),
		system:    shows(Input{Messages: []Message{{Role: "system", Content: probeText}, user}}),
		generationPrompt: text(Input{Messages: []Message{user}, AddGenerationPrompt: true}) !=
			text(Input{Messages: []Message{user}}),
		reasoningEffort: text(probeEffort(user, "low")) != text(probeEffort(user, "high")),
	}
}

func probeEffort(user Message, effort string) Input {
	return Input{Messages: []Message{user}, AddGenerationPrompt: true, Variables: Object{{"reasoning_effort", effort}}}
}

func probeTool(name string) Object {
	return Object{{"type", "function"}, {"function", Object{
		{"name", name}, {"description", "A tool."},
		{"parameters", Object{
			{"type", "object"},
			{"properties", Object{{"x", Object{{"type", "string"}, {"description", "An argument."}}}}},
			{"required", []any{"x"}},
		}},
	}}}
}

// probeCall is a chat in which a tool was called.
func probeCall(user Message) []Message {
	call := Object{{"id", "abcdef123"}, {"type", "function"}, {"function", Object{{"name", probeText}, {"arguments", Object{{"x", probeText}}}}}}
	return []Message{
		user,
		{Role: "assistant", Content: "", More: Object{{"tool_calls", []any{call}}}},
		{Role: "tool", Content: "z", More: Object{{"tool_call_id", "abcdef123"}, {"name", "other"}}},
	}
}
