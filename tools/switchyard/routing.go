package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// routingCmd shows or sets the live weights of a model's routers.
type routingCmd struct {
	cluster
	Policy        string   `arg:"" optional:"" help:"kv, round-robin, random, least-loaded, power-of-two, session or direct; shows what is in force if nothing is given."`
	Model         string   `help:"The model; the only one that is served if empty."`
	PrefillWeight *float64 `help:"Weight of the time to compute what is not cached of the prompt."`
	DecodeWeight  *float64 `help:"Weight of the time to generate the answer beside the running sequences."`
	StallWeight   *float64 `help:"Weight of the time to compute that for each sequence that runs there and waits meanwhile."`
	HostCredit    *float64 `help:"How much of a block in host memory counts as cached, 0 to 1."`
	DiskCredit    *float64 `help:"How much of a block on disk counts as cached, 0 to 1."`
	PendingCredit *float64 `help:"How much of a block counts as cached that a request sent before will compute, 0 to 1."`
	Temperature   *float64 `help:"0 takes the lowest cost; above, higher ones are taken now and then."`
	JSON          bool     `help:"Print JSON." name:"json"`
}

// Run implements the command.
func (c *routingCmd) Run(ctx context.Context, out io.Writer) (err error) {
	client, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.close()) }()
	model, _, err := client.model(ctx, c.Model)
	if err != nil {
		return err
	}
	key, live := discovery.ConfigKey(model, "router"), map[string]any{}
	if _, err := client.discovery.FetchJSON(ctx, key, &live); err != nil {
		return fmt.Errorf("routing of %s: %w", model, err)
	}
	if changes := c.changes(); len(changes) > 0 {
		maps.Copy(live, changes)
		if err := checkWeights(live); err != nil {
			return err
		}
		if err := client.discovery.PutJSON(ctx, key, live); err != nil {
			return fmt.Errorf("routing of %s: %w", model, err)
		}
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(live)
	}
	return printWeights(out, model, live)
}

// changes are what the command line says, by the keys of the configuration. All else stays what each
// processor's own configuration says.
func (c *routingCmd) changes() map[string]any {
	changes := map[string]any{}
	if c.Policy != "" {
		changes["policy"] = c.Policy
	}
	for key, value := range map[string]*float64{
		"prefill_weight": c.PrefillWeight, "decode_weight": c.DecodeWeight, "stall_weight": c.StallWeight, "host_credit": c.HostCredit,
		"disk_credit": c.DiskCredit, "pending_credit": c.PendingCredit, "temperature": c.Temperature,
	} {
		if value != nil {
			changes[key] = *value
		}
	}
	return changes
}

// checkWeights refuses what processors would.
func checkWeights(live map[string]any) error {
	text, err := json.Marshal(live)
	if err != nil { // a number that JSON does not have
		return fmt.Errorf("the weights cannot be written: %w", err)
	}
	weights := router.DefaultWeights()
	if err := json.Unmarshal(text, &weights); err != nil { // all else are numbers
		return fmt.Errorf("policy is %q: %w", live["policy"], err)
	}
	return weights.Validate()
}

func printWeights(out io.Writer, model string, live map[string]any) (err error) {
	if len(live) == 0 {
		_, err = fmt.Fprintf(out, "%s: each processor goes by its own configuration\n", model)
		return err
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(live)) {
		parts = append(parts, fmt.Sprintf("%s %v", key, live[key]))
	}
	_, err = fmt.Fprintf(out, "%s: %s; for the rest each processor goes by its own configuration\n", model, strings.Join(parts, ", "))
	return err
}

// routeCmd explains a decision.
type routeCmd struct {
	cluster
	Prompt  []string `arg:"" help:"The message of the user."`
	Model   string   `help:"The model; the only one that is served if empty."`
	System  string   `help:"System message."`
	Session string   `help:"The request's session."`
	Text    bool     `help:"The prompt is text as it is, not a message."`
	JSON    bool     `help:"Print JSON." name:"json"`
}

// Run implements the command.
func (c *routeCmd) Run(ctx context.Context, out io.Writer) (err error) {
	client, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.close()) }()
	model, _, err := client.model(ctx, c.Model)
	if err != nil {
		return err
	}
	conn, err := client.conns.To(discovery.Target(instancev1.Role_ROLE_PROCESSOR, model))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	r, err := processorv1.NewProcessorClient(conn).ExplainRoute(ctx, &processorv1.ExplainRouteRequest{Request: c.request(model)})
	if err != nil {
		return fmt.Errorf("explain a route: %s", rpc.Message(err))
	}
	if c.JSON {
		_, err = fmt.Fprintln(out, compact(r))
		return err
	}
	return printRoute(out, r)
}

func (c *routeCmd) request(model string) *generationv1.Request {
	text := strings.Join(c.Prompt, " ")
	r := &generationv1.Request{RequestId: "route", Model: model, Session: c.Session, Sampling: &generationv1.Sampling{Seed: new(uint64)}}
	if c.Text {
		r.Input = &generationv1.Request_Text{Text: text}
		return r
	}
	chat := &generationv1.Chat{}
	if c.System != "" {
		chat.Messages = append(chat.Messages, &generationv1.Message{Role: "system", Content: c.System})
	}
	chat.Messages = append(chat.Messages, &generationv1.Message{Role: "user", Content: text})
	r.Input = &generationv1.Request_Chat{Chat: chat}
	return r
}

func printRoute(out io.Writer, r *processorv1.ExplainRouteResponse) error {
	fmt.Fprintf(out, "%d tokens, policy %s: cost = %g · prefill + queue + %g · decode + %g · stall\n", r.GetPromptTokens(), r.GetPolicy(),
		r.GetPrefillWeight(), r.GetDecodeWeight(), r.GetStallWeight())
	unit := "MS"
	if len(r.GetCandidates()) > 0 && r.GetCandidates()[0].GetInBlocks() {
		unit = "BLOCKS"
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "WORKER\tCOST %s\tPREFILL\tQUEUE\tDECODE\tSTALL\tUNCACHED\tDEVICE\tPENDING\tHOST\tDISK\tEXCLUDED\n", unit)
	for _, c := range r.GetCandidates() {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%d\t%d\t%d\t%d\t%s\n", c.GetWorker(), c.GetCost(), c.GetPrefill(), c.GetQueue(), c.GetDecode(),
			c.GetStall(), c.GetUncachedTokens(), c.GetDeviceBlocks(), c.GetPendingBlocks(), c.GetHostBlocks(), c.GetDiskBlocks(), c.GetExcluded())
	}
	return w.Flush()
}
