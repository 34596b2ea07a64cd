package processor

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// Generate implements processorv1.ProcessorServer.
func (p *Processor) Generate(r *processorv1.GenerateRequest, stream grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
	return p.generate(stream.Context(), r.GetRequest(), func(chunks []*generationv1.Chunk) error {
		return stream.Send(&processorv1.GenerateResponse{Chunks: chunks})
	})
}

// generate answers one request. What emit is given is not touched afterwards.
func (p *Processor) generate(ctx context.Context, req *generationv1.Request, emit func([]*generationv1.Chunk) error) (err error) {
	started := time.Now()
	defer func() { p.metrics.ended(ctx, err) }()
	if !p.admission.enter() {
		return errFull(p.cfg.MaxRequests)
	}
	p.metrics.active.Add(ctx, 1)
	defer func() {
		p.metrics.active.Add(ctx, -1)
		p.admission.leave()
	}()
	base, err := p.prompt(ctx, req)
	if err != nil {
		return err
	}
	w := &work{p: p, req: req, base: base, emit: emit, started: started, created: timestamppb.New(started)}
	if req.GetEcho() {
		if w.echo, err = p.builder.Echo(ctx, req, p.cfg.MaxBodyBytes); err != nil {
			return err
		}
	}
	return w.run(ctx)
}

// prompt validates the request and tokenizes its prompt.
func (p *Processor) prompt(ctx context.Context, req *generationv1.Request) (base *generationv1.Sequence, err error) {
	ctx, span := p.tracer.Start(ctx, "processor.prompt")
	defer func() { endSpan(span, err) }()
	if err := p.checkModel(req.GetModel()); err != nil {
		return nil, err
	}
	if err := p.destination(req.GetDecodeWorker()); err != nil {
		return nil, err
	}
	base, err = p.builder.Build(ctx, req, p.contextTokens())
	if err != nil {
		return nil, err
	}
	span.SetAttributes(attribute.Int("switchyard.prompt_tokens", len(base.GetPrompt())), attribute.Int("switchyard.max_tokens", int(base.GetMaxTokens())))
	p.metrics.promptTokens.Add(ctx, int64(len(base.GetPrompt())))
	return base, nil
}

func (p *Processor) checkModel(name string) error {
	switch name {
	case p.deps.Model.Name:
		return nil
	case "":
		return rpc.InvalidArgument("model", "is empty, want the name of a model")
	}
	return rpc.NotFound("model", name)
}

// contextTokens is the longest sequence that model and workers admit.
func (p *Processor) contextTokens() int {
	if workers := p.workers.state().contextTokens; workers > 0 {
		return min(p.deps.Model.ContextTokens, workers)
	}
	return p.deps.Model.ContextTokens
}

// destination checks the name of the worker that a request wants; empty: any.
func (p *Processor) destination(name string) error {
	switch {
	case name != "" && !p.workers.knows(name):
		return rpc.InvalidArgument("decode_worker", fmt.Sprintf("is %q, want the name of a decode worker that serves the model (over HTTP it is the header X-Switchyard-Worker)", name))
	case name == "" && p.router.Weights().Policy == router.Direct:
		return rpc.InvalidArgument("decode_worker", "is empty, want the name of a decode worker (over HTTP the header X-Switchyard-Worker): the routing policy is direct")
	}
	return nil
}

// Models implements processorv1.ProcessorServer.
func (p *Processor) Models(context.Context, *processorv1.ModelsRequest) (*processorv1.ModelsResponse, error) {
	s := p.workers.state()
	if !s.known {
		return &processorv1.ModelsResponse{}, nil
	}
	return &processorv1.ModelsResponse{Models: []*processorv1.Model{{
		Name: p.deps.Model.Name, ContextTokens: uint32(min(s.contextTokens, p.deps.Model.ContextTokens)), CreatedUnix: s.since.Unix(),
		ChatTemplate: chatTemplate(p.deps.Model.Template),
	}}}, nil
}

// chatTemplate is what a template takes; nil has none.
func chatTemplate(t *chattemplate.Template) *processorv1.ChatTemplate {
	if t == nil {
		return nil
	}
	return &processorv1.ChatTemplate{
		SystemRole: t.TakesSystem(), Tools: t.TakesTools(), ToolCalls: t.TakesToolCalls(),
		ContentParts: t.TakesParts(), GenerationPrompt: t.TakesGenerationPrompt(), ReasoningEffort: t.TakesReasoningEffort(),
	}
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(otelcodes.Error, err.Error())
	}
	span.End()
}
