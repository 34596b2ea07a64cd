// Command texts writes the texts that tokenizers are measured on into a folder, for tokenizers that are not ours.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

func main() { run.Main(write) }

// bytes is the size of a text; the English one is shorter, for it would repeat itself.
const bytes, englishBytes = 4 << 20, 1180 << 10

func write(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("expected: texts FOLDER")
	}
	c := corpus.New(func(name string) (string, error) { return testfiles.Path(ctx, name) })
	for name, make := range map[string]func() (string, error){
		"english": func() (string, error) { return c.English(englishBytes) },
		"code":    func() (string, error) { return c.Code(bytes) },
		"cjk":     func() (string, error) { return c.CJK(bytes) },
		"madeup":  func() (string, error) { return corpus.MadeUp(40_000, bytes), nil },
	} {
		text, err := make()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(args[0], name+".txt"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
