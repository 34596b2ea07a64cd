// Command switchyard is what a person types: it serves a model on one machine, and talks
// to servers.
//
// Exit codes: 0 done, 1 an error in one line on standard error, 2 wrong usage.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/switchyard-llm/switchyard/libs/modelstore"
	process "github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

// commands are the subcommands with their flags.
type commands struct {
	Serve       serveCmd       `cmd:"" help:"Run everything in one process: an OpenAI server with its workers."`
	Chat        chatCmd        `cmd:"" help:"Talk to a server from the terminal."`
	Status      statusCmd      `cmd:"" help:"Show the workers, their load and what they did."`
	Policy      policyCmd      `cmd:"" help:"Show or set where prompts are computed."`
	Routing     routingCmd     `cmd:"" help:"Show or set how decode workers are picked."`
	Route       routeCmd       `cmd:"" help:"Explain where a message would go now, and what it would cost at each worker."`
	DeadLetters deadLettersCmd `cmd:"" help:"Show the requests that were ended because workers died of them."`
	Trace       traceCmd       `cmd:"" help:"Show one request's way from span files."`
	Tokenize    tokenizeCmd    `cmd:"" help:"Show the tokens of a text."`
	Bench       benchCmd       `cmd:"" help:"Measure on your own machines."`
	GPUs        gpusCmd        `cmd:"" name:"gpus" help:"Show the GPUs of this machine and what each two of them share."`
	Render      renderCmd      `cmd:"" help:"Show the prompt that a conversation becomes."`
}

func main() {
	process.CollectLess()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and answers its exit code.
func execute(ctx context.Context, args []string, out, errors io.Writer) int {
	parser, err := kong.New(&commands{}, kong.Name("switchyard"), kong.UsageOnError(), kong.Vars{"data": defaultData(), "model": modelstore.DefaultModel, "tokenizers": strings.Join(testfiles.Models(), ", ")},
		kong.Description("Serve large language models."), kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(out, (*io.Writer)(nil)), kong.Writers(out, errors))
	if err != nil {
		fmt.Fprintln(errors, "switchyard:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(errors, "switchyard:", err)
		return 2
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(errors, "switchyard:", err)
		return 1
	}
	return 0
}
