package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// The router knows what the workers hold, whatever dies meanwhile, and what it, the usage and the metrics say of
// reuse is what the workers really did not compute.
func TestReuseIsWhatTheWorkersSay(t *testing.T) {
	c := start(t, options{shape: cputest.Tiny()})
	for _, p := range []struct {
		policy disagg.Policy
		place  generationv1.Placement
	}{
		{local, generationv1.Placement_PLACEMENT_LOCAL}, {remote, generationv1.Placement_PLACEMENT_REMOTE},
	} {
		t.Run(p.policy.Policy, func(t *testing.T) {
			c := c.with(t)
			c.setPolicy(p.policy, p.place)
			c.indexIsRight()
			c.reuse(p.policy.Policy, p.policy == remote)
		})
	}
	for _, fault := range []struct {
		name string
		do   func(c *cluster)
	}{
		{"a decode worker dies and comes back", func(c *cluster) { c.kill("decode-0"); c.again("decode-0") }},
		{"a prefill worker dies and comes back", func(c *cluster) { c.kill("prefill-1"); c.again("prefill-1") }},
		{"NATS dies, and comes back after some requests", func(c *cluster) {
			c.kill("nats")
			c.all(dialogues(7, "while NATS is away"), 4)
			c.again("nats")
		}},
		{"the processor dies and comes back", func(c *cluster) { c.kill("processor"); c.again("processor") }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			c := c.with(t)
			fault.do(c)
			c.eventually("requests are answered", func() error {
				_, err := c.ask(c.t.Context(), request{prompt: newSource(3, 100).tokens(40), maxTokens: 2}, nil)
				return err
			})
			c.indexIsRight()
			before := c.routed()
			c.all(dialogues(8, fault.name), 4)
			c.indexIsRight()
			if now := c.routed(); now.GetCorrections() != before.GetCorrections() {
				t.Errorf("%d corrections, want none", now.GetCorrections()-before.GetCorrections())
			}
		})
	}
}

// dialogues are prompts that begin alike, as turns of some conversations do.
func dialogues(seed uint64, salt string) (all []request) {
	s := newSource(seed, 100)
	for range 4 {
		turn := s.tokens(50)
		for range 5 {
			turn = append(turn[:len(turn):len(turn)], s.tokens(30)...)
			all = append(all, request{prompt: turn, maxTokens: 4, salt: salt})
		}
	}
	return all
}

// reuse asks conversations one request after the other and compares what everybody says.
func (c *cluster) reuse(salt string, remotely bool) {
	c.t.Helper()
	before, routedBefore, shownBefore := c.idle(), c.routed(), c.shown("switchyard_processor_cached_tokens")
	var prompt, cached uint64
	for _, r := range dialogues(5, salt) {
		a, err := c.ask(c.t.Context(), r, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		prompt += uint64(a.usage.GetPromptTokens())
		cached += uint64(a.usage.GetCachedTokens())
		c.indexIsRight() // the next turn finds this one
	}
	w := difference(before, c.idle())
	if remotely {
		c.expect("tokens received from prefill workers", w.received, prompt-cached)
	} else {
		c.expect("tokens computed", w.decodePrompt, prompt-cached)
	}
	routed := c.routed()
	var prompts, expected, reused uint64
	for i, now := range routed.GetWorkers() {
		old := routedBefore.GetWorkers()[i]
		prompts += now.GetPromptTokens() - old.GetPromptTokens()
		expected += now.GetExpectedTokens() - old.GetExpectedTokens()
		reused += now.GetCachedTokens() - old.GetCachedTokens()
	}
	c.expect("tokens of prompts by the router", prompts, prompt)
	c.expect("tokens reused by the router", reused, cached)
	c.expect("tokens that the router expected", expected, cached)
	c.expect("tokens reused by the metrics", c.shown("switchyard_processor_cached_tokens")-shownBefore, cached)
	c.expect("corrections", routed.GetCorrections()-routedBefore.GetCorrections(), 0)
	if cached*2 < prompt { // each turn but the first finds all but its end
		c.t.Errorf("%d of %d tokens were reused", cached, prompt)
	}
}

func (c *cluster) routed() *processorv1.RoutingResponse {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	r, err := c.processor.Routing(ctx, &processorv1.RoutingRequest{}, grpc.WaitForReady(true))
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// indexIsRight waits until the router knows of each decode worker as many blocks as that holds, up to
// its last event.
func (c *cluster) indexIsRight() {
	c.t.Helper()
	c.eventually("the index is right", func() error {
		workers := map[string]*processorv1.RoutedWorker{}
		for _, w := range c.routed().GetWorkers() {
			workers[w.GetWorker()] = w
		}
		for i := range c.decodes {
			in := c.describeDecode(i).GetInstance()
			blocks, sequence, err := c.held(i, in.GetIncarnation())
			if err != nil {
				return err
			}
			w := workers[in.GetId()]
			if w.GetIncarnation() != in.GetIncarnation() || w.GetHeldBlocks() != blocks || w.GetKvSequence() != sequence {
				return fmt.Errorf("%s holds %d blocks at event %d, the router knows %v", in.GetId(), blocks, sequence, w)
			}
		}
		return nil
	})
}

// held is what a decode worker says that it holds.
func (c *cluster) held(i int, incarnation string) (blocks, sequence uint64, err error) {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	stream, err := c.decodes[i].Snapshot(ctx, &decodeworkerv1.SnapshotRequest{Query: &kveventv1.SnapshotQuery{Incarnation: incarnation}})
	if err != nil {
		return 0, 0, err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return blocks, sequence, nil
		}
		if err != nil {
			return 0, 0, err
		}
		blocks += uint64(len(m.GetPart().GetRuns().GetHashes()))
		sequence = m.GetPart().GetSequence()
	}
}

// shown reads a counter of the processor as Prometheus would.
func (c *cluster) shown(name string) (sum uint64) {
	c.t.Helper()
	response, err := http.Get("http://" + c.metrics + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:_total)?(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			c.t.Fatalf("%s: %v", m[0], err)
		}
		sum += uint64(v)
	}
	return sum
}
