package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// requestKey is the context key of the request's id.
type requestKey struct{}

// WithRequestID makes ctx carry the id of the client request it serves, for logs.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID is the id that WithRequestID put into ctx, or empty.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// NewLogger makes a logger that writes text or json from a level on (debug, info, warn,
// error). Each line logged with a context carries its request_id and trace_id.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var from slog.Level
	switch level {
	case "debug":
		from = slog.LevelDebug
	case "info":
		from = slog.LevelInfo
	case "warn":
		from = slog.LevelWarn
	case "error":
		from = slog.LevelError
	default:
		return nil, fmt.Errorf("log_level is %q, want debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: from}
	switch format {
	case "text":
		return slog.New(handler{slog.NewTextHandler(w, opts)}), nil
	case "json":
		return slog.New(handler{slog.NewJSONHandler(w, opts)}), nil
	default:
		return nil, fmt.Errorf("log_format is %q, want text or json", format)
	}
}

// handler adds what the context knows.
type handler struct{ slog.Handler }

var _ slog.Handler = handler{}

// Handle writes the record with the ids of its context.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if id := RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps adding ids.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps adding ids, inside the group.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
