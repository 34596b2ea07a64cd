package processor

import (
	"fmt"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// simulated begins the name of a model that has no file; the name of its shape follows.
const simulated = "sim:"

// simulatedShape says what is wrong with the shape of a simulated model's name.
func simulatedShape(model string) error {
	shape, is := strings.CutPrefix(model, simulated)
	if !is {
		return nil
	}
	_, err := timing.ShapeNamed(shape)
	return err
}

// SimModel is the text side of a simulated model: its vocabulary is that of a tokenizer's file, or
// each byte is a token if there is none, and a chat is written in ChatML. An empty name is that
// under which workers of the shape serve by default.
func SimModel(shape, name, tokenizerFile string) (*Model, error) {
	s, err := timing.ShapeNamed(shape)
	if err != nil {
		return nil, fmt.Errorf("the shape %w", err)
	}
	if name == "" {
		name = s.ServedName()
	}
	m := &Model{Name: name, ContextTokens: s.ContextTokens, Tokenizer: tokenizer.Bytes(), EOS: "<|im_end|>"}
	if tokenizerFile != "" {
		if m.Tokenizer, err = TokenizerCache().Open(tokenizerFile); err != nil {
			return nil, err
		}
	}
	m.Template, err = chattemplate.Parse(chattemplate.ChatML, chattemplate.Options{ControlTexts: m.Tokenizer.ControlTexts()})
	return m, err
}
