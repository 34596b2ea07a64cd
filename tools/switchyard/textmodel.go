package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	"github.com/switchyard-llm/switchyard/services/processor"
)

// textModel is what of a model text goes through. It is what the processor has, made with
// the same code.
type textModel struct {
	name      string
	tokenizer *tokenizer.Tokenizer
	template  *chattemplate.Template // nil: there is none
	bos, eos  string
}

// loadText reads a model's tokenizer and template: of a GGUF file or a model that can be
// fetched, of a tokenizer.json, or of a folder that has one.
func loadText(ctx context.Context, nameOrPath string, now func() time.Time) (*textModel, error) {
	info, err := os.Stat(nameOrPath)
	switch {
	case err == nil && info.IsDir():
		return loadFolder(nameOrPath, now)
	case err == nil && strings.EqualFold(filepath.Ext(nameOrPath), ".json"):
		tok, err := processor.TokenizerCache().Open(nameOrPath)
		return &textModel{name: nameOrPath, tokenizer: tok}, err
	}
	m, err := processor.LoadModel(ctx, nameOrPath, "")
	if err != nil {
		return nil, err
	}
	out := &textModel{name: m.Name, tokenizer: m.Tokenizer, template: m.Template, bos: m.BOS, eos: m.EOS}
	if now != nil && m.TemplateSource != "" {
		out.template, err = parseTemplate(m.TemplateSource, m.Tokenizer, now)
	}
	return out, err
}

// tokenizerConfig is what a tokenizer_config.json says that a template needs.
type tokenizerConfig struct {
	Template json.RawMessage `json:"chat_template"` // a template, or a list of named ones
	BOS      tokenText       `json:"bos_token"`
	EOS      tokenText       `json:"eos_token"`
}

// tokenText is a token's text, written as such or as an object.
type tokenText string

func (t *tokenText) UnmarshalJSON(data []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(data, (*string)(t)) == nil {
		return nil
	}
	err := json.Unmarshal(data, &object)
	*t = tokenText(object.Content)
	return err
}

// loadFolder reads a folder in the form of Hugging Face's hub.
func loadFolder(folder string, now func() time.Time) (*textModel, error) {
	tok, err := processor.TokenizerCache().Open(filepath.Join(folder, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	m := &textModel{name: filepath.Base(folder), tokenizer: tok}
	path := filepath.Join(folder, "tokenizer_config.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	var cfg tokenizerConfig
	if err == nil {
		err = json.Unmarshal(data, &cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.bos, m.eos = string(cfg.BOS), string(cfg.EOS)
	source, err := cfg.source(folder)
	if err != nil || source == "" {
		return m, err
	}
	m.template, err = parseTemplate(source, tok, now)
	return m, err
}

// source is the template: of a file of its own, else of the configuration; "" if there is none.
func (c *tokenizerConfig) source(folder string) (string, error) {
	own, err := os.ReadFile(filepath.Join(folder, "chat_template.jinja"))
	if !errors.Is(err, os.ErrNotExist) {
		return string(own), err
	}
	var text string
	if len(c.Template) == 0 || json.Unmarshal(c.Template, &text) == nil {
		return text, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(c.Template, &named); err != nil {
		return "", errors.New(`tokenizer_config.json: chat_template, want a text or a list of {"name", "template"}`)
	}
	for _, t := range named {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", errors.New(`tokenizer_config.json: chat_template has no template named "default"`)
}

func parseTemplate(source string, tok *tokenizer.Tokenizer, now func() time.Time) (*chattemplate.Template, error) {
	controls := []string{}
	if tok != nil {
		controls = append(controls, tok.ControlTexts()...)
	}
	return chattemplate.Parse(source, chattemplate.Options{ControlTexts: controls, Now: now})
}
