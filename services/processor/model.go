package processor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/modelstore"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// Model is what the processor needs of a model: how its text becomes tokens and back.
// It is immutable, and processors of one process may share it.
type Model struct {
	// Name is the served one.
	Name string
	// ContextTokens is the longest sequence that the model knows, in tokens.
	ContextTokens int
	Tokenizer     *tokenizer.Tokenizer
	// Template is the chat template, and TemplateSource its text. Nil: the model has none.
	Template       *chattemplate.Template
	TemplateSource string
	// BOS and EOS are the texts of these tokens; empty where the model has none.
	BOS, EOS string
}

// LoadModel reads a model out of its GGUF file, which is fetched where the model has only
// a name, with the progress on standard error; "sim:" and a shape needs none. An empty name is
// the model's own.
func LoadModel(ctx context.Context, nameOrPath, name string) (*Model, error) {
	if shape, is := strings.CutPrefix(nameOrPath, simulated); is {
		return SimModel(shape, name, "")
	}
	path, err := modelstore.Resolve(ctx, nameOrPath, modelstore.NewProgress(os.Stderr))
	if err != nil {
		return nil, err
	}
	file, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	if name == "" {
		general, _ := file.String("general.name") // optional
		name = modelstore.Name(nameOrPath, general)
	}
	tok, err := TokenizerCache().Load(path, func() (*tokenizer.Tokenizer, error) { return tokenizer.FromGGUF(file) })
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, errors.Join(err, file.Close()))
	}
	m, err := newModel(file, name, tok)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	return m, nil
}

// TokenizerCache is where tokenizers that were built once are kept.
func TokenizerCache() tokenizer.Cache {
	return tokenizer.Cache{Folder: modelstore.Built(), Warn: func(err error) { fmt.Fprintln(os.Stderr, "switchyard:", err) }}
}

// NewModel reads a model out of an open file, of which it keeps nothing.
func NewModel(file *gguf.File, name string) (*Model, error) {
	tok, err := tokenizer.FromGGUF(file)
	if err != nil {
		return nil, err
	}
	return newModel(file, name, tok)
}

func newModel(file *gguf.File, name string, tok *tokenizer.Tokenizer) (*Model, error) {
	m := &Model{Name: name, Tokenizer: tok}
	architecture, err := file.String("general.architecture")
	if err != nil {
		return nil, err
	}
	tokens, err := file.Uint(architecture + ".context_length")
	if err != nil {
		return nil, err
	}
	if tokens < 2 || tokens > 1<<30 {
		return nil, fmt.Errorf("metadata %q is %d, want 2 to %d", architecture+".context_length", tokens, 1<<30)
	}
	m.ContextTokens = int(tokens)
	if bos, ok := m.Tokenizer.BOS(); ok {
		m.BOS, _ = m.Tokenizer.Token(bos)
	}
	if eos, err := file.Uint("tokenizer.ggml.eos_token_id"); err == nil && eos < uint64(m.Tokenizer.VocabTokens()) {
		m.EOS, _ = m.Tokenizer.Token(uint32(eos))
	}
	const key = "tokenizer.chat_template"
	if !file.Has(key) {
		return m, nil
	}
	source, err := file.String(key)
	if err != nil {
		return nil, err
	}
	controls := m.Tokenizer.ControlTexts()
	if controls == nil {
		controls = []string{}
	}
	m.TemplateSource = source
	m.Template, err = chattemplate.Parse(source, chattemplate.Options{ControlTexts: controls})
	return m, err
}
