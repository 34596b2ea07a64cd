// Command oracle asks Hugging Face's tokenizers, in node, for the answers that package oracle has
// the hashes of.
//
//	go run ./tools/oracle                              records all models and variants
//	go run ./tools/oracle -sets added,random qwen3     records some sets of a model anew
//	go run ./tools/oracle -compare qwen3 unicode/12    shows where ours differs, as short as it can be
//	go run ./tools/oracle -compare qwen3 'some text'   compares a text
//
// It needs node and npm, and is run at the top of the work tree.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/switchyard-llm/switchyard/libs/run"
)

func main() { run.Main(runWith) }

// options are the command line.
type options struct {
	folder, modules, sets string
	compare               bool
}

func runWith(ctx context.Context, args []string) error {
	o := options{}
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	flags.StringVar(&o.folder, "to", "libs/tokenizer/testdata/exact", "the folder of the recordings")
	flags.StringVar(&o.modules, "modules", filepath.Join(os.TempDir(), "switchyard-oracle"), "where npm puts the reference")
	flags.StringVar(&o.sets, "sets", "", "record these only, by commas")
	flags.BoolVar(&o.compare, "compare", false, "compare with our tokenizer: a model, then blocks or texts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := install(ctx, o.modules); err != nil {
		return fmt.Errorf("install %s: %w", library, err)
	}
	if o.compare {
		return compare(ctx, o, flags.Args())
	}
	return record(ctx, o, flags.Args())
}
