package frontend

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// processors is the processors of all models as one: a call goes to one of its model. A call costs a
// look into a map that is replaced, never changed.
type processors struct {
	known atomic.Pointer[map[string]served] // by model
	keep  time.Duration                     // how long a model is remembered that no processor serves
}

var _ processorv1.ProcessorClient = (*processors)(nil)

// served is a model, and who serves it.
type served struct {
	client processorv1.ProcessorClient
	// left is since when no processor serves it; zero: one does.
	left time.Time
}

func newProcessors(keep time.Duration) *processors {
	p := &processors{keep: keep}
	p.known.Store(&map[string]served{})
	return p
}

// of is the client for a model. The errors are those of a processor.
func (p *processors) of(model string) (processorv1.ProcessorClient, error) {
	known := *p.known.Load()
	r, ok := known[model]
	switch {
	case ok && r.left.IsZero():
		return r.client, nil
	case ok && time.Since(r.left) < p.keep:
		return nil, rpc.Unavailable(fmt.Sprintf("no processor serves the model %q at present", model))
	case model == "":
		return nil, rpc.InvalidArgument("model", "is empty, want the name of a model")
	case len(known) == 0: // whether there is such a model, nobody knows
		return nil, errNoProcessor()
	}
	return nil, rpc.NotFound("model", model)
}

func errNoProcessor() error { return rpc.Unavailable("no processor is there") }

// Generate implements processorv1.ProcessorClient.
func (p *processors) Generate(ctx context.Context, in *processorv1.GenerateRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[processorv1.GenerateResponse], error) {
	c, err := p.of(in.GetRequest().GetModel())
	if err != nil {
		return nil, err
	}
	return c.Generate(ctx, in, opts...)
}

// Tokenize implements processorv1.ProcessorClient.
func (p *processors) Tokenize(ctx context.Context, in *processorv1.TokenizeRequest, opts ...grpc.CallOption) (*processorv1.TokenizeResponse, error) {
	c, err := p.of(in.GetRequest().GetModel())
	if err != nil {
		return nil, err
	}
	return c.Tokenize(ctx, in, opts...)
}

// Detokenize implements processorv1.ProcessorClient.
func (p *processors) Detokenize(ctx context.Context, in *processorv1.DetokenizeRequest, opts ...grpc.CallOption) (*processorv1.DetokenizeResponse, error) {
	c, err := p.of(in.GetRequest().GetModel())
	if err != nil {
		return nil, err
	}
	return c.Detokenize(ctx, in, opts...)
}

// ExplainRoute implements processorv1.ProcessorClient.
func (p *processors) ExplainRoute(ctx context.Context, in *processorv1.ExplainRouteRequest, opts ...grpc.CallOption) (*processorv1.ExplainRouteResponse, error) {
	c, err := p.of(in.GetRequest().GetModel())
	if err != nil {
		return nil, err
	}
	return c.ExplainRoute(ctx, in, opts...)
}

// Routing implements processorv1.ProcessorClient. It is one processor's own, which tools call directly.
func (p *processors) Routing(context.Context, *processorv1.RoutingRequest, ...grpc.CallOption) (*processorv1.RoutingResponse, error) {
	return nil, rpc.Unimplemented("the routing is each processor's own, ask one")
}
