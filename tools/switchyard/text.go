package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// tokenizeCmd turns text into tokens and back.
type tokenizeCmd struct {
	Model   string   `help:"A GGUF file, the name of a model that can be fetched, a tokenizer.json, or a folder that has one." default:"${model}"`
	Text    []string `arg:"" optional:"" help:"Show the tokens of this text. Without it, lines of JSON are read from standard input: {\"text\": …} is answered with {\"ids\": …}, {\"ids\": …} with {\"text\": …}."`
	Special bool     `help:"Let the text of special tokens be these tokens, and show them in text."`
	Offsets bool     `help:"Answer with the first byte of each token in the text and the one behind its last, too."`
}

// Run implements the command.
func (c *tokenizeCmd) Run(ctx context.Context, out io.Writer) error {
	model, err := loadText(ctx, c.Model, nil)
	if err != nil {
		return err
	}
	if len(c.Text) > 0 {
		return c.table(out, model.tokenizer)
	}
	return eachLine(os.Stdin, out, func(line []byte) (any, error) { return c.answer(line, model.tokenizer) })
}

// table shows the tokens of the text that was typed.
func (c *tokenizeCmd) table(out io.Writer, tok *tokenizer.Tokenizer) error {
	tokens := tok.Encode(nil, strings.Join(c.Text, " "), tokenizer.Special(c.Special))
	for _, t := range tokens {
		text, special := tok.Token(t)
		mark := ""
		if special {
			mark = "  special"
		}
		fmt.Fprintf(out, "%6d  %q%s\n", t, text, mark)
	}
	_, err := fmt.Fprintf(out, "%d tokens\n", len(tokens))
	return err
}

// tokenizeLine is a line of input.
type tokenizeLine struct {
	Text *string            `json:"text"`
	IDs  *[]*sequence.Token `json:"ids"` // pointers tell null from 0
}

func (c *tokenizeCmd) answer(line []byte, tok *tokenizer.Tokenizer) (any, error) {
	const want = `want {"text": "…"} or {"ids": [numbers]}`
	var in tokenizeLine
	if err := json.Unmarshal(line, &in, json.RejectUnknownMembers(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("%.200s, %s", err.Error(), want)
	}
	switch {
	case (in.Text == nil) == (in.IDs == nil):
		return nil, errors.New(want)
	case in.IDs != nil:
		ids := make([]sequence.Token, len(*in.IDs))
		for i, id := range *in.IDs {
			if id == nil {
				return nil, fmt.Errorf("ids[%d] is null, want a number", i)
			}
			if ids[i] = *id; int(*id) >= tok.VocabTokens() {
				return nil, fmt.Errorf("ids[%d] is %d, want less than the vocabulary's %d", i, *id, tok.VocabTokens())
			}
		}
		return map[string]string{"text": tok.Decode(ids, tokenizer.Special(c.Special))}, nil
	case c.Offsets:
		ids, spans := tok.Offsets(*in.Text, tokenizer.Special(c.Special))
		offsets := make([][2]int, len(spans))
		for i, s := range spans {
			offsets[i] = [2]int{s.Start, s.End}
		}
		return map[string]any{"ids": orEmpty(ids), "offsets": offsets}, nil
	}
	return map[string]any{"ids": orEmpty(tok.Encode(nil, *in.Text, tokenizer.Special(c.Special)))}, nil
}

// orEmpty makes nothing an empty list in JSON.
func orEmpty(ids []sequence.Token) []sequence.Token {
	if ids == nil {
		return []sequence.Token{}
	}
	return ids
}
