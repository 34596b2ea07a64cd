package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	"github.com/switchyard-llm/switchyard/services/processor"
)

// modelFlag says whose tokenizer and template are meant.
type modelFlag struct {
	Model string `help:"A GGUF file, or the name of a model that can be fetched." default:"${model}"`
	JSON  bool   `help:"Print JSON." name:"json"`
}

// tokenizeCmd shows the tokens of a text, as /v1/completions would see it.
type tokenizeCmd struct {
	modelFlag
	Text  []string `arg:"" optional:"" help:"The text; standard input if empty."`
	Plain bool     `help:"Treat the text of special tokens as plain text, as in the content of a message."`
}

// Run implements the command.
func (c *tokenizeCmd) Run(ctx context.Context, out io.Writer) error {
	model, err := processor.LoadModel(ctx, c.Model, "")
	if err != nil {
		return err
	}
	text, err := textOf(c.Text)
	if err != nil {
		return err
	}
	special := tokenizer.WithSpecial
	if c.Plain {
		special = tokenizer.NoSpecial
	}
	tokens := model.Tokenizer.Encode(nil, text, special)
	if c.JSON {
		return json.NewEncoder(out).Encode(map[string]any{"model": model.Name, "tokens": tokens})
	}
	for _, t := range tokens {
		text, special := model.Tokenizer.Token(t)
		mark := ""
		if special {
			mark = "  special"
		}
		fmt.Fprintf(out, "%6d  %q%s\n", t, text, mark)
	}
	_, err = fmt.Fprintf(out, "%d tokens\n", len(tokens))
	return err
}

// renderCmd shows what a model's template makes of a conversation.
type renderCmd struct {
	modelFlag
	User   []string `arg:"" optional:"" help:"The user's message; standard input if empty."`
	System string   `help:"System message."`
}

// Run implements the command.
func (c *renderCmd) Run(ctx context.Context, out io.Writer) error {
	model, err := processor.LoadModel(ctx, c.Model, "")
	if err != nil {
		return err
	}
	if model.Template == nil {
		return fmt.Errorf("%s has no chat template", model.Name)
	}
	text, err := textOf(c.User)
	if err != nil {
		return err
	}
	in := chattemplate.Input{AddGenerationPrompt: true, BOS: model.BOS, EOS: model.EOS}
	if c.System != "" {
		in.Messages = append(in.Messages, chattemplate.Message{Role: "system", Content: c.System})
	}
	in.Messages = append(in.Messages, chattemplate.Message{Role: "user", Content: text})
	segments, err := model.Template.Render(ctx, in)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(map[string]any{
			"model": model.Name, "prompt": chattemplate.Join(segments), "tokens": model.Tokenizer.EncodeSegments(nil, segments),
		})
	}
	_, err = io.WriteString(out, chattemplate.Join(segments))
	return err
}

// textOf joins the arguments, or reads standard input.
func textOf(args []string) (string, error) {
	if len(args) > 0 {
		return strings.Join(args, " "), nil
	}
	text, err := io.ReadAll(os.Stdin)
	return string(text), err
}
