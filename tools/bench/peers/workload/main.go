// Command workload writes what prefixtest makes of a request trace into a file, for prefix indexes that are not ours.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/switchyard-llm/switchyard/libs/prefix/prefixtest"
	"github.com/switchyard-llm/switchyard/libs/run"
)

func main() { run.Main(write) }

func write(_ context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("workload", flag.ContinueOnError)
	workers := flags.Int("workers", 64, "over which the requests are spread")
	holes := flags.Float64("holes", 0, "part of the removed blocks that are any instead of the longest unused, 0 to 1")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 || *workers < 1 {
		return errors.New("expected: workload [-workers 64] [-holes 0.02] trace.jsonl file, at least one worker")
	}
	config := prefixtest.DefaultConfig(*workers)
	config.Holes = *holes
	w, err := prefixtest.Load(flags.Arg(0), config)
	if err != nil {
		return err
	}
	file, err := os.Create(flags.Arg(1))
	if err != nil {
		return fmt.Errorf("create workload: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return w.Write(file)
}
