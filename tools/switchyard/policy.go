package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// policyCmd shows or sets the live policy of a model.
type policyCmd struct {
	cluster
	Policy          string         `arg:"" optional:"" help:"cost, threshold, always or never; shows the policy in force if not given."`
	Model           string         `help:"The model; the only one that is served if empty."`
	ITLTarget       *time.Duration `help:"cost: the gap between two tokens above which a local prefill harms those that decode; 0 is 100ms." name:"itl-target"`
	ExploreEvery    *int           `help:"cost: one of so many decisions tries the way that is predicted to be slower; 0 is 64."`
	ThresholdTokens *int           `help:"threshold: prompts with more uncached tokens go remote; cost: only those explore."`
	MaxQueue        *int           `help:"threshold: only while fewer jobs than this wait."`
	JSON            bool           `help:"Print JSON." name:"json"`
}

// Run implements the command.
func (c *policyCmd) Run(ctx context.Context, out io.Writer) (err error) {
	client, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.close()) }()
	model, blockTokens, err := client.model(ctx, c.Model)
	if err != nil {
		return err
	}
	key := discovery.ConfigKey(model, "disagg")
	policy := disagg.DefaultPolicy(blockTokens)
	if _, err := client.discovery.FetchJSON(ctx, key, &policy); err != nil {
		return fmt.Errorf("policy of %s: %w", model, err)
	}
	if c.change(&policy) {
		if err := errors.Join(c.check(), policy.Validate()); err != nil {
			return err
		}
		if err := client.discovery.PutJSON(ctx, key, policy); err != nil {
			return fmt.Errorf("policy of %s: %w", model, err)
		}
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(policy)
	}
	_, err = fmt.Fprintf(out, "%s: %s, threshold_tokens %d, max_queue %d, itl_target %v, explore_every %d\n", model, policy.Policy,
		policy.ThresholdTokens, policy.MaxQueue, policy.ITLTarget(), policy.ExplorePeriod())
	return err
}

// check refuses what the policy's milliseconds cannot say.
func (c *policyCmd) check() error {
	if t := c.ITLTarget; t != nil && *t%time.Millisecond != 0 {
		return fmt.Errorf("--itl-target is %v, want whole milliseconds", *t)
	}
	return nil
}

// change applies what the command line says; false if it says nothing.
func (c *policyCmd) change(p *disagg.Policy) bool {
	if c.Policy != "" {
		p.Policy = c.Policy
	}
	if c.ThresholdTokens != nil {
		p.ThresholdTokens = *c.ThresholdTokens
	}
	if c.MaxQueue != nil {
		p.MaxQueue = *c.MaxQueue
	}
	if c.ITLTarget != nil {
		p.ITLTargetMS = int(c.ITLTarget.Milliseconds())
	}
	if c.ExploreEvery != nil {
		p.ExploreEvery = *c.ExploreEvery
	}
	return c.Policy != "" || c.ThresholdTokens != nil || c.MaxQueue != nil || c.ITLTarget != nil || c.ExploreEvery != nil
}

// model finds the model that a command means, and its block size.
func (c *client) model(ctx context.Context, name string) (string, int, error) {
	members, err := c.members(ctx, instancev1.Role_ROLE_DECODE_WORKER)
	if err != nil {
		return "", 0, err
	}
	blockTokens := make(map[string]int)
	var names []string
	for _, m := range members {
		card := m.Instance.GetModel()
		if name == "" || name == card.GetName() {
			blockTokens[card.GetName()] = int(card.GetBlockTokens())
			names = append(names, card.GetName())
		}
	}
	slices.Sort(names)
	switch names = slices.Compact(names); {
	case len(names) == 0 && name != "":
		return "", 0, fmt.Errorf("model is %q: no decode worker serves it", name)
	case len(names) == 0:
		return "", 0, errors.New("no decode worker is there")
	case len(names) > 1:
		return "", 0, fmt.Errorf("model is empty, want one of %q", names)
	}
	return names[0], blockTokens[names[0]], nil
}
