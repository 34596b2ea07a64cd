package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
	"github.com/switchyard-llm/switchyard/libs/modelstore"
)

// renderCmd shows what a template makes of a conversation.
type renderCmd struct {
	Model    string   `help:"A GGUF file, the name of a model that can be fetched, or a folder with a tokenizer.json and a tokenizer_config.json; ${model} by default." xor:"source"`
	Template string   `help:"A file with a template, in place of a model's." type:"existingfile" xor:"source"`
	User     []string `arg:"" optional:"" help:"Show the prompt of this message of a user. Without it, lines of JSON are read from standard input: {\"messages\": […], \"tools\": […], …} is answered with {\"text\": …} or {\"error\": …}. Further fields are the template's variables; add_generation_prompt is true if it is not there."`
	System   string   `help:"System message before the user's."`
	IDs      bool     `help:"Answer with the tokens, too." name:"ids"`
	Now      string   `help:"What time the template is told, such as 2026-01-02T03:04:05; without it, the time of this machine."`
}

// Run implements the command.
func (c *renderCmd) Run(ctx context.Context, out io.Writer) error {
	model, err := c.load(ctx)
	if err != nil {
		return err
	}
	if len(c.User) > 0 {
		return c.one(ctx, out, model)
	}
	return eachLine(os.Stdin, out, func(line []byte) (any, error) { return c.answer(ctx, line, model) })
}

func (c *renderCmd) load(ctx context.Context) (*textModel, error) {
	now, err := c.clock()
	if err != nil {
		return nil, err
	}
	if c.Template != "" {
		if c.IDs {
			return nil, errors.New("--ids wants a model, not --template")
		}
		source, err := os.ReadFile(c.Template)
		if err != nil {
			return nil, err
		}
		template, err := parseTemplate(string(source), nil, now)
		return &textModel{name: c.Template, template: template}, err
	}
	model, err := loadText(ctx, cmp.Or(c.Model, modelstore.DefaultModel), now)
	if err == nil && model.template == nil {
		err = fmt.Errorf("%s has no chat template", model.name)
	}
	return model, err
}

// clock is the clock of --now; nil is the machine's.
func (c *renderCmd) clock() (func() time.Time, error) {
	if c.Now == "" {
		return nil, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if now, err := time.Parse(layout, c.Now); err == nil {
			return func() time.Time { return now }, nil
		}
	}
	return nil, fmt.Errorf("--now is %q, want a time such as 2026-01-02T03:04:05", c.Now)
}

// one shows the prompt of the message that was typed.
func (c *renderCmd) one(ctx context.Context, out io.Writer, m *textModel) error {
	in := chattemplate.Input{AddGenerationPrompt: true, BOS: m.bos, EOS: m.eos}
	if c.System != "" {
		in.Messages = append(in.Messages, chattemplate.Message{Role: "system", Content: c.System})
	}
	in.Messages = append(in.Messages, chattemplate.Message{Role: "user", Content: strings.Join(c.User, " ")})
	segments, err := m.template.Render(ctx, in)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, chattemplate.Join(segments))
	return err
}

func (c *renderCmd) answer(ctx context.Context, line []byte, m *textModel) (any, error) {
	in, err := renderInput(line, m)
	if err != nil {
		return nil, err
	}
	segments, err := m.template.Render(ctx, in)
	var refused *chattemplate.Refused
	if errors.As(err, &refused) {
		err = errors.New(refused.Message)
	}
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"text": chattemplate.Join(segments)}
	if c.IDs {
		answer["ids"] = orEmpty(m.tokenizer.EncodeSegments(nil, segments))
	}
	return answer, nil
}

// renderInput reads a line: its fields are what the template sees, in their order.
func renderInput(line []byte, m *textModel) (in chattemplate.Input, err error) {
	value, err := chattemplate.DecodeJSON(line)
	if err != nil {
		return in, err
	}
	fields, ok := value.(chattemplate.Object)
	if !ok {
		return in, errors.New(`want an object with "messages"`)
	}
	in = chattemplate.Input{AddGenerationPrompt: true, BOS: m.bos, EOS: m.eos}
	found := false
	for _, f := range fields {
		switch f.Name {
		case "messages":
			found = true
			in.Messages, err = messages(f.Value)
		case "tools":
			if in.Tools, ok = f.Value.([]any); !ok && f.Value != nil {
				err = errors.New("tools: want a list")
			}
		case "add_generation_prompt":
			if in.AddGenerationPrompt, ok = f.Value.(bool); !ok {
				err = errors.New("add_generation_prompt: want true or false")
			}
		case "bos_token":
			in.BOS, err = textField(f)
		case "eos_token":
			in.EOS, err = textField(f)
		case "options":
			more, ok := f.Value.(chattemplate.Object)
			if !ok {
				err = errors.New("options: want an object of the template's variables")
			}
			in.Variables = append(in.Variables, more...)
		default:
			in.Variables = append(in.Variables, f)
		}
		if err != nil {
			return in, err
		}
	}
	if !found {
		return in, errors.New("messages: missing, want a list")
	}
	return in, nil
}

func textField(f chattemplate.Field) (string, error) {
	text, ok := f.Value.(string)
	if !ok && f.Value != nil {
		return "", fmt.Errorf("%s: want a text", f.Name)
	}
	return text, nil
}

func messages(value any) ([]chattemplate.Message, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, errors.New("messages: want a list")
	}
	out := make([]chattemplate.Message, len(list))
	for i, item := range list {
		fields, ok := item.(chattemplate.Object)
		if !ok {
			return nil, fmt.Errorf("messages[%d]: want an object", i)
		}
		for _, f := range fields {
			switch f.Name {
			case "role":
				if out[i].Role, ok = f.Value.(string); !ok {
					return nil, fmt.Errorf("messages[%d].role: want a text", i)
				}
			case "content":
				out[i].Content = f.Value
			default:
				out[i].More = append(out[i].More, f)
			}
		}
	}
	return out, nil
}
