package openai

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// maxVariablesBytes bounds what a client may hand to the chat template.
const maxVariablesBytes = 64 << 10

// efforts are how much a model may be told to think, in the words of an error.
const efforts = "'none', 'minimal', 'low', 'medium', 'high' and 'xhigh'"

func knownEffort(effort string) bool {
	switch effort {
	case "none", "minimal", "low", "medium", "high", "xhigh":
		return true
	}
	return false
}

// chat is the conversation; parameters may come before the messages.
func (p *parser) chat() *generationv1.Chat {
	if p.conversation == nil {
		p.conversation = &generationv1.Chat{}
	}
	return p.conversation
}

// template gives what reads a parameter of how a conversation becomes a prompt; nil for another.
func (p *parser) template(name string) func() error {
	switch name {
	case "add_generation_prompt":
		return func() error {
			v, err := p.boolean()
			p.chat().AddGenerationPrompt = &v
			return err
		}
	case "continue_final_message":
		return p.setFlag(&p.chat().ContinueFinalMessage)
	case "chat_template_kwargs":
		return p.readVariables
	case "reasoning_effort":
		return p.readEffort
	}
	return nil
}

// readVariables keeps an object as it is: the template may look at the order of its members.
func (p *parser) readVariables() error {
	if kind := p.dec.PeekKind(); kind != '{' {
		tok, err := p.token()
		if err != nil {
			return err
		}
		return p.mistyped("an object", tok)
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return p.syntax(err)
	}
	if len(v) > maxVariablesBytes {
		return largeVariables(len(v))
	}
	if len(bytes.TrimSpace(v[1:len(v)-1])) == 0 {
		return nil
	}
	// The value is a part of the body, which would live as long.
	p.chat().TemplateVariables = slices.Clone([]byte(v))
	return nil
}

func (p *parser) readEffort() error {
	effort, err := p.text()
	if err != nil {
		return err
	}
	p.chat().ReasoningEffort = effort
	return checkEffort(effort)
}

func checkEffort(effort string) error {
	if knownEffort(effort) {
		return nil
	}
	return bad("invalid_value", "reasoning_effort", "Invalid value: '%s'. Supported values are: %s.", clip(effort), efforts)
}

func largeVariables(got int) *Error {
	return bad("invalid_value", "chat_template_kwargs",
		"Invalid 'chat_template_kwargs': too large. Expected at most %d bytes of JSON, but got %d instead.", maxVariablesBytes, got)
}

// checkTemplate checks how a conversation is to become a prompt.
func checkTemplate(chat *generationv1.Chat) error {
	if chat.GetAddGenerationPrompt() && chat.GetContinueFinalMessage() {
		return bad("invalid_parameter_combination", "continue_final_message",
			"Setting 'continue_final_message' and 'add_generation_prompt' at the same time is not supported.")
	}
	if effort := chat.GetReasoningEffort(); effort != "" {
		if err := checkEffort(effort); err != nil {
			return err
		}
	}
	variables := jsontext.Value(chat.GetTemplateVariables())
	switch {
	case len(variables) == 0:
		return nil
	case len(variables) > maxVariablesBytes:
		return largeVariables(len(variables))
	case variables.Kind() != '{' || !variables.IsValid():
		return bad("invalid_type", "chat_template_kwargs",
			"Invalid type for 'chat_template_kwargs': expected a JSON object without duplicate names.")
	}
	return nil
}
