package prompt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// chat renders a conversation up to where the answer begins, and tokenizes it.
func (b *Builder) chat(ctx context.Context, chat *generationv1.Chat) ([]sequence.Token, error) {
	if len(chat.GetMessages()) == 0 {
		return nil, rpc.InvalidArgument("messages", "is empty, want at least one message")
	}
	if b.cfg.Template == nil {
		return nil, rpc.InvalidArgument("messages", "the model has no chat template, want a prompt for completions")
	}
	in := chattemplate.Input{BOS: b.cfg.BOS, EOS: b.cfg.EOS}
	if err := b.chatOptions(chat, &in); err != nil {
		return nil, err
	}
	for i, m := range chat.GetMessages() {
		if m.GetRole() == "" {
			return nil, rpc.InvalidArgument(fmt.Sprintf("messages[%d].role", i), "is empty, want system, user, assistant, developer or tool")
		}
		if m.GetRole() == "system" && !b.cfg.Template.TakesSystem() {
			return nil, rpc.InvalidArgument(fmt.Sprintf("messages[%d].role", i),
				"is system, but the model's chat template takes no system message, want its text in the first message of the user")
		}
		message := chattemplate.Message{Role: m.GetRole(), Content: m.GetContent()}
		if m.GetName() != "" {
			message.More = chattemplate.Object{{Name: "name", Value: m.GetName()}}
		}
		in.Messages = append(in.Messages, message)
	}
	segments, err := b.cfg.Template.Render(ctx, in)
	if err != nil {
		return nil, templateError(err)
	}
	if chat.GetContinueFinalMessage() {
		last := len(chat.GetMessages()) - 1
		if segments, err = chattemplate.Resume(segments, chat.GetMessages()[last].GetContent()); err != nil {
			return nil, rpc.InvalidArgument("continue_final_message", err.Error())
		}
	}
	trace.SpanFromContext(ctx).AddEvent("rendered")
	return b.cfg.Tokenizer.EncodeSegments(nil, segments), nil
}

// ownVariables are those that a template gets from elsewhere.
var ownVariables = []string{"messages", "tools", "add_generation_prompt", "continue_final_message", "bos_token", "eos_token", "reasoning_effort"}

// chatOptions fills in what a chat asks for beside its messages.
func (b *Builder) chatOptions(chat *generationv1.Chat, in *chattemplate.Input) error {
	goesOn := chat.GetContinueFinalMessage()
	in.AddGenerationPrompt = !goesOn
	if chat.AddGenerationPrompt != nil {
		in.AddGenerationPrompt = chat.GetAddGenerationPrompt()
	}
	if goesOn && in.AddGenerationPrompt {
		return rpc.InvalidArgument("continue_final_message", "is set with add_generation_prompt, want one of them: the answer either goes on with the last message or has a head")
	}
	if text := chat.GetTemplateVariables(); len(text) > 0 {
		v, err := chattemplate.DecodeJSON(text)
		variables, ok := v.(chattemplate.Object)
		if err != nil || !ok {
			return rpc.InvalidArgument("chat_template_kwargs", "is no JSON object, want one with the template's variables")
		}
		for _, f := range variables {
			if slices.Contains(ownVariables, f.Name) {
				return rpc.InvalidArgument("chat_template_kwargs", fmt.Sprintf("has %q, want it as a parameter of its own", f.Name))
			}
		}
		in.Variables = variables
	}
	if effort := chat.GetReasoningEffort(); effort != "" {
		if !b.cfg.Template.TakesReasoningEffort() {
			return rpc.InvalidArgument("reasoning_effort", "is set, but the model's chat template does not look at it, want it left out")
		}
		in.Variables = append(in.Variables, chattemplate.Field{Name: "reasoning_effort", Value: effort})
	}
	return nil
}

// templateError tells the caller's faults from the template's own.
func templateError(err error) error {
	var refused *chattemplate.Refused
	switch {
	case errors.As(err, &refused):
		return rpc.InvalidArgument("messages", refused.Error())
	case errors.Is(err, chattemplate.ErrLimit):
		return rpc.InvalidArgument("messages", "too much for the chat template, want fewer or shorter messages: "+err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return rpc.Internal(err)
}
