package processor_test

import (
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

// reason of the first field violation.
func reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if b, ok := d.(*errdetails.BadRequest); ok {
			return b.GetFieldViolations()[0].GetReason()
		}
	}
	return ""
}

func chat(messages ...string) *generationv1.Request_Chat {
	c := &generationv1.Chat{}
	for i := 0; i < len(messages); i += 2 {
		c.Messages = append(c.Messages, &generationv1.Message{Role: messages[i], Content: messages[i+1]})
	}
	return &generationv1.Request_Chat{Chat: c}
}

func TestWhatBadInputGets(t *testing.T) {
	h := start(t, options{}, workertest.Start(t, "w", nil))
	const tooLong = "CONTEXT_LENGTH_EXCEEDED"
	for name, c := range map[string]struct {
		change func(*generationv1.Request)
		code   codes.Code
		field  string
		reason string
	}{
		"no model":           {func(r *generationv1.Request) { r.Model = "" }, codes.InvalidArgument, "model", ""},
		"unknown model":      {func(r *generationv1.Request) { r.Model = "gpt" }, codes.NotFound, "", ""},
		"no input":           {func(r *generationv1.Request) { r.Input = nil }, codes.InvalidArgument, "prompt", ""},
		"empty text":         {func(r *generationv1.Request) { r.Input = &generationv1.Request_Text{} }, codes.InvalidArgument, "prompt", ""},
		"no messages":        {func(r *generationv1.Request) { r.Input = chat() }, codes.InvalidArgument, "messages", ""},
		"no role":            {func(r *generationv1.Request) { r.Input = chat("user", "hi", "", "x") }, codes.InvalidArgument, "messages[1].role", ""},
		"long chat":          {func(r *generationv1.Request) { r.Input = chat("user", strings.Repeat("x", 300)) }, codes.InvalidArgument, "messages", tooLong},
		"long text":          {func(r *generationv1.Request) { r.Input = &generationv1.Request_Text{Text: strings.Repeat("x", 256)} }, codes.InvalidArgument, "prompt", tooLong},
		"max_tokens 0":       {func(r *generationv1.Request) { r.Limits.MaxTokens = ptr(uint32(0)) }, codes.InvalidArgument, "max_tokens", ""},
		"max_tokens too big": {func(r *generationv1.Request) { r.Limits.MaxTokens = ptr(uint32(255)) }, codes.InvalidArgument, "max_tokens", tooLong},
		"max_tokens huge":    {func(r *generationv1.Request) { r.Limits.MaxTokens = ptr(^uint32(0)) }, codes.InvalidArgument, "max_tokens", tooLong},
		"temperature":        {func(r *generationv1.Request) { r.Sampling.Temperature = ptr(float32(2.5)) }, codes.InvalidArgument, "temperature", ""},
		"top_p":              {func(r *generationv1.Request) { r.Sampling.TopP = ptr(float32(-1)) }, codes.InvalidArgument, "top_p", ""},
		"no seed":            {func(r *generationv1.Request) { r.Sampling = nil }, codes.InvalidArgument, "seed", ""},
		"empty stop":         {func(r *generationv1.Request) { r.Limits.Stop = []string{"a", ""} }, codes.InvalidArgument, "stop", ""},
		"no token ids": {func(r *generationv1.Request) {
			r.Input = &generationv1.Request_TokenIds{TokenIds: &generationv1.TokenIds{}}
		}, codes.InvalidArgument, "prompt", ""},
		"token id": {func(r *generationv1.Request) {
			r.Input = &generationv1.Request_TokenIds{TokenIds: &generationv1.TokenIds{Ids: []uint32{1, 259}}}
		}, codes.InvalidArgument, "prompt", ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := request("hi", 9)
			c.change(req)
			r := h.generate(t.Context(), req)
			if rpc.Code(r.err) != c.code || rpc.Field(r.err) != c.field || reason(r.err) != c.reason || len(r.chunks) != 0 {
				t.Errorf("%v, field %q, reason %q; want %v, %q, %q", r.err, rpc.Field(r.err), reason(r.err), c.code, c.field, c.reason)
			}
		})
	}
	if r := h.generate(t.Context(), nil); rpc.Code(r.err) != codes.InvalidArgument {
		t.Errorf("no request: %v", r.err)
	}
}

func TestUnsetMaxTokensIsTheRestOfTheContextOrTheDefault(t *testing.T) {
	for limit, want := range map[int]uint32{1024: contextTokens - 2, 10: 10} {
		h := start(t, options{config: func(c *processor.Config) { c.DefaultMaxTokens = limit }}, workertest.Start(t, "w", nil))
		req := request("hi", 9)
		req.Limits = nil
		if r := h.generate(t.Context(), req); r.err != nil || r.last().GetUsage().GetCompletionTokens() != want {
			t.Errorf("default %d: %d tokens, %v; want %d", limit, r.last().GetUsage().GetCompletionTokens(), r.err, want)
		}
	}
}

func TestTheSmallestWorkerBoundsTheContext(t *testing.T) {
	big, small := workertest.Start(t, "big", nil), workertest.Start(t, "small", nil)
	h := start(t, options{}, big, small)
	for name, card := range map[string]*instancev1.ModelCard{
		"context": {Name: modelName, ContextTokens: 64, BlockTokens: 16, PoolBlocks: 64},
		"pool":    {Name: modelName, ContextTokens: 256, BlockTokens: 16, PoolBlocks: 4},
	} {
		in := instance(small)
		in.Model = card
		h.members.set(instance(big), in)
		h.untilContext(t, 64)
		if r := h.generate(t.Context(), request("xxxx", 61)); rpc.Field(r.err) != "max_tokens" {
			t.Errorf("%s: %v, want max_tokens refused", name, r.err)
		}
		if r := h.generate(t.Context(), request("xxxx", 60)); r.err != nil {
			t.Errorf("%s: %v", name, r.err)
		}
		h.members.set(instance(big), instance(small))
		h.untilContext(t, contextTokens)
	}
}

func TestConfigNamesTheFieldThatCannotBe(t *testing.T) {
	for field, change := range map[string]func(*processor.Config){
		"listen":             func(c *processor.Config) { c.Listen = "" },
		"etcd":               func(c *processor.Config) { c.Etcd = nil },
		"model":              func(c *processor.Config) { c.Model = "" },
		"drain":              func(c *processor.Config) { c.Drain = -1 },
		"dispatch_wait":      func(c *processor.Config) { c.DispatchWait = -1 },
		"default_max_tokens": func(c *processor.Config) { c.DefaultMaxTokens = 0 },
		"max_requests":       func(c *processor.Config) { c.MaxRequests = 0 },
		"migrations":         func(c *processor.Config) { c.Migrations = -1 },
		"router.policy":      func(c *processor.Config) { c.Router.Policy = "x" },
	} {
		cfg := processor.DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := processor.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}
