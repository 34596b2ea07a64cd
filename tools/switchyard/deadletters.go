package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/deadletter"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// deadLettersCmd shows the requests that were ended because workers died of them.
type deadLettersCmd struct {
	NATS string `help:"URL of the servers' NATS; found through --data if empty." name:"nats" placeholder:"URL"`
	Data string `help:"Data folder of a running serve." default:"${data}" type:"path"`
	Last int    `help:"How many to show, the latest last." default:"20"`
	JSON bool   `help:"Print one JSON object a line." name:"json"`
}

// Run implements the command.
func (c *deadLettersCmd) Run(ctx context.Context, out io.Writer) error {
	if c.Last < 1 {
		return fmt.Errorf("--last is %d, want at least 1", c.Last)
	}
	url := c.NATS
	if url == "" {
		found, err := readEndpoints(c.Data)
		if err != nil {
			return fmt.Errorf("--nats is empty, want a URL or --data: %w", err)
		}
		url = found.NATS
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	nc, err := broker.Connect(ctx, url, "switchyard dead-letters", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer nc.Close()
	letters, others, err := deadletter.Latest(ctx, nc, c.Last)
	if err != nil {
		return err
	}
	if err := c.show(out, letters); err != nil {
		return err
	}
	if others > 0 {
		return fmt.Errorf("%d of the messages on %s are no dead letters", others, deadletter.Subject)
	}
	return nil
}

func (c *deadLettersCmd) show(out io.Writer, letters []*generationv1.DeadLetter) error {
	if c.JSON {
		encoder := json.NewEncoder(out)
		for _, l := range letters {
			text, err := protojson.Marshal(l)
			if err == nil {
				err = encoder.Encode(json.RawMessage(text))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if len(letters) == 0 {
		_, err := fmt.Fprintln(out, "no request was ended because workers died of it")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tREQUEST\tMODEL\tPROMPT\tGENERATED\tWORKERS THAT DIED")
	for _, l := range letters {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t", l.GetTime().AsTime().Local().Format(time.DateTime), l.GetRequestId(), l.GetModel(), l.GetPromptTokens(), l.GetGeneratedTokens())
		for i, d := range l.GetDeaths() {
			if i > 0 {
				fmt.Fprint(w, ", ")
			}
			fmt.Fprint(w, d.GetWorker())
			if d.GetAlone() {
				fmt.Fprint(w, " (alone)")
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
