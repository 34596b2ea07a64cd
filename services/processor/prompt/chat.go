package prompt

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// chat renders a conversation up to where the answer begins, and tokenizes it.
func (b *Builder) chat(ctx context.Context, chat *generationv1.Chat, generationPrompt bool) ([]sequence.Token, error) {
	if len(chat.GetMessages()) == 0 {
		return nil, rpc.InvalidArgument("messages", "is empty, want at least one message")
	}
	if b.cfg.Template == nil {
		return nil, rpc.InvalidArgument("messages", "the model has no chat template, want a prompt for completions")
	}
	in := chattemplate.Input{AddGenerationPrompt: generationPrompt, BOS: b.cfg.BOS, EOS: b.cfg.EOS}
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
	trace.SpanFromContext(ctx).AddEvent("rendered")
	return b.cfg.Tokenizer.EncodeSegments(nil, segments), nil
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
