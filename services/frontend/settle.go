package frontend

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-llm/switchyard/libs/telemetry"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// settle ends a request: it finds the one status it ended with, and tells the planner's
// statistics, the metrics and the log. It returns nil or an *openai.Error.
func (s *server) settle(ctx context.Context, a *answer, err error) error {
	var failure *openai.Error
	status := http.StatusOK
	if err != nil {
		failure = openai.ErrorOf(err)
		if failure.Code == "model_not_found" && a.req != nil {
			failure = openai.NoSuchModel(a.req.GetModel())
		}
		status = failure.HTTPStatus
	}
	o := outcome{a: a, status: status, elapsed: time.Since(a.start)}
	if a.dispatched {
		s.traffic.end(o)
	}
	s.observe.settled(ctx, o)
	trace.SpanFromContext(ctx).SetAttributes(attribute.String("request_id", a.id), attribute.Int("status", status))
	s.logSettled(telemetry.WithRequestID(ctx, a.id), o, failure)
	if failure == nil {
		return nil
	}
	return failure
}

// outcome is a request that ended.
type outcome struct {
	a       *answer
	status  int
	elapsed time.Duration
}

// timeToFirstToken is 0 if none came.
func (o outcome) timeToFirstToken() time.Duration {
	if o.a.first.IsZero() {
		return 0
	}
	return o.a.first.Sub(o.a.start)
}

// interTokenLatency is the mean time between the tokens of a choice, if any had two. It is 0
// where they came together.
func (o outcome) interTokenLatency() (mean time.Duration, ok bool) {
	if o.a.tally.gaps == 0 {
		return 0, false
	}
	return o.a.tally.between / time.Duration(o.a.tally.gaps), true
}

// failed tells whether the system is at fault: neither the client's mistake nor its leaving.
func (o outcome) failed() bool {
	return o.status >= http.StatusInternalServerError || o.status == http.StatusTooManyRequests
}

func (s *server) logSettled(ctx context.Context, o outcome, failure *openai.Error) {
	level := slog.LevelInfo
	if failure != nil && o.status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	if !s.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("kind", o.a.kind.name), slog.Int("status", o.status),
		slog.Duration("duration", o.elapsed),
	}
	if o.a.clientID != "" {
		attrs = append(attrs, slog.String("client_request_id", o.a.clientID))
	}
	if o.a.req != nil {
		attrs = append(attrs, slog.String("model", o.a.req.GetModel()))
	}
	if end := o.a.end; end != nil {
		attrs = append(attrs, slog.Uint64("prompt_tokens", uint64(end.GetUsage().GetPromptTokens())),
			slog.Uint64("completion_tokens", uint64(end.GetUsage().GetCompletionTokens())), slog.Duration("ttft", o.timeToFirstToken()))
	}
	if failure != nil {
		attrs = append(attrs, slog.String("error", failure.Message))
		if failure.Cause != nil {
			attrs = append(attrs, slog.String("cause", failure.Cause.Error()))
		}
	}
	s.log.LogAttrs(ctx, level, "request ended", attrs...)
}

// startSpan starts the span of a request's way through this service.
func (s *server) startSpan(ctx context.Context, kind string) (context.Context, func(error)) {
	ctx, span := s.tracer.Start(ctx, "frontend.request", trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("kind", kind)))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
