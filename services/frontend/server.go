package frontend

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// server implements frontendv1.FrontendServer, for the gateway and for gRPC callers.
type server struct {
	frontendv1.UnimplementedFrontendServer

	cfg       Config
	processor processorv1.ProcessorClient
	log       *slog.Logger
	tracer    trace.Tracer
	observe   *instruments
	traffic   *traffic
	admitted  atomic.Int64 // requests in flight, at most cfg.MaxRequests
}

var _ frontendv1.FrontendServer = (*server)(nil)

// admit takes a place among the requests in flight; leave gives it back.
func (s *server) admit(ctx context.Context) error {
	if s.admitted.Add(1) > int64(s.cfg.MaxRequests) {
		s.admitted.Add(-1)
		return openai.Overloaded("Too many requests are in flight. Try again later.", time.Second)
	}
	s.observe.active.Add(ctx, 1)
	return nil
}

func (s *server) leave(ctx context.Context) {
	s.admitted.Add(-1)
	s.observe.active.Add(ctx, -1)
}

// ChatCompletions implements frontendv1.FrontendServer.
func (s *server) ChatCompletions(in *frontendv1.ChatCompletionsRequest, out grpc.ServerStreamingServer[frontendv1.ChatCompletionsResponse]) error {
	return s.answer(out.Context(), question{
		kind: chatKind,
		read: func(ignored *openai.Ignored) (*generationv1.Request, error) {
			if typed := in.GetTyped(); typed != nil {
				return typed, openai.CheckChat(typed)
			}
			return openai.ParseChat(in.GetJson(), ignored)
		},
	}, chatSink{out})
}

// Completions implements frontendv1.FrontendServer.
func (s *server) Completions(in *frontendv1.CompletionsRequest, out grpc.ServerStreamingServer[frontendv1.CompletionsResponse]) error {
	return s.answer(out.Context(), question{
		kind: textKind,
		read: func(ignored *openai.Ignored) (*generationv1.Request, error) {
			if typed := in.GetTyped(); typed != nil {
				return typed, openai.CheckCompletion(typed)
			}
			return openai.ParseCompletion(in.GetJson(), ignored)
		},
	}, textSink{out})
}

// ListModels implements frontendv1.FrontendServer.
func (s *server) ListModels(ctx context.Context, _ *frontendv1.ListModelsRequest) (*frontendv1.ListModelsResponse, error) {
	models, err := s.models(ctx)
	if err != nil {
		return nil, err
	}
	return &frontendv1.ListModelsResponse{Models: models}, nil
}

// RetrieveModel implements frontendv1.FrontendServer.
func (s *server) RetrieveModel(ctx context.Context, in *frontendv1.RetrieveModelRequest) (*frontendv1.RetrieveModelResponse, error) {
	models, err := s.models(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range models {
		if m.GetId() == in.GetModel() {
			return &frontendv1.RetrieveModelResponse{Model: m}, nil
		}
	}
	return nil, openai.NoSuchModel(in.GetModel())
}

// modelsTimeout bounds the question for the models, which no step of an engine delays.
const modelsTimeout = 5 * time.Second

func (s *server) models(ctx context.Context) ([]*frontendv1.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	r, err := s.processor.Models(ctx, &processorv1.ModelsRequest{})
	if err != nil {
		e := openai.ErrorOf(err)
		s.log.WarnContext(ctx, "no models", "error", err)
		return nil, e
	}
	models := make([]*frontendv1.Model, 0, len(r.GetModels()))
	for _, m := range r.GetModels() {
		models = append(models, &frontendv1.Model{
			Id: m.GetName(), CreatedUnix: m.GetCreatedUnix(), OwnedBy: "switchyard", ContextTokens: m.GetContextTokens(),
		})
	}
	return models, nil
}
