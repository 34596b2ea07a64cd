package prompt_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func TestChatOptionsReachTheTemplate(t *testing.T) {
	const template = `{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<head {{ reasoning_effort }}{{ think }}>{% endif %}`
	for _, c := range []struct {
		name, want string
		change     func(*generationv1.Chat)
	}{
		{"none", "<user>hi</><assistant>so</><head >", func(*generationv1.Chat) {}},
		{"no head", "<user>hi</><assistant>so</>", func(c *generationv1.Chat) { c.AddGenerationPrompt = ptr(false) }},
		{"the last message goes on", "<user>hi</><assistant>so", func(c *generationv1.Chat) { c.ContinueFinalMessage = true }},
		{"an effort", "<user>hi</><assistant>so</><head low>", func(c *generationv1.Chat) { c.ReasoningEffort = "low" }},
		{"a variable", "<user>hi</><assistant>so</><head 7>", func(c *generationv1.Chat) { c.TemplateVariables = []byte(`{"think": 7}`) }},
	} {
		req := chat(&generationv1.Message{Role: "user", Content: "hi"}, &generationv1.Message{Role: "assistant", Content: "so"})
		c.change(req.GetChat())
		if got := build(t, builder(t, template), req).GetPrompt(); !slices.Equal(got, bytesAs(c.want)) {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
}

func TestChatOptionsThatCannotBeAreNamed(t *testing.T) {
	for field, change := range map[string]func(*generationv1.Chat){
		"continue_final_message": func(c *generationv1.Chat) { c.ContinueFinalMessage, c.AddGenerationPrompt = true, ptr(true) },
		"chat_template_kwargs":   func(c *generationv1.Chat) { c.TemplateVariables = []byte(`{"messages": []}`) },
		"reasoning_effort":       func(c *generationv1.Chat) { c.ReasoningEffort = "low" },
	} {
		req := chat(&generationv1.Message{Role: "user", Content: "hi"})
		change(req.GetChat())
		_, err := builder(t, tokenizertest.ChatTemplate).Build(t.Context(), req, contextTokens)
		if rpc.Code(err) != codes.InvalidArgument || rpc.Field(err) != field {
			t.Errorf("%s: %v (field %q)", field, err, rpc.Field(err))
		}
	}
}

func TestWhatEndsAnAnswer(t *testing.T) {
	own := []uint32{tokenizertest.EndOfText, tokenizertest.TurnEnd}
	for _, c := range []struct {
		name   string
		limits *generationv1.Limits
		want   []uint32
	}{
		{"the model's own", nil, own},
		{"and the request's", &generationv1.Limits{StopTokenIds: []uint32{9}}, append(slices.Clone(own), 9)},
		{"only the request's", &generationv1.Limits{StopTokenIds: []uint32{9}, IgnoreEos: true}, []uint32{9}},
		{"nothing", &generationv1.Limits{IgnoreEos: true}, nil},
	} {
		req := text("x")
		req.Limits = c.limits
		if got := build(t, builder(t, ""), req).GetStopTokens(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
