package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Span is one line of a trace file.
type Span struct {
	TraceID    string         `json:"trace_id"`
	SpanID     string         `json:"span_id"`
	ParentID   string         `json:"parent_id,omitempty"` // empty: the root
	Name       string         `json:"name"`
	Kind       string         `json:"kind"`
	Service    string         `json:"service"`
	Instance   string         `json:"instance"`
	Start      int64          `json:"start_unix_nano"`
	End        int64          `json:"end_unix_nano"`
	Attributes map[string]any `json:"attributes,omitempty"`
	Events     []SpanEvent    `json:"events,omitempty"`
	Error      string         `json:"error,omitempty"`
}

// SpanEvent is a moment within a span.
type SpanEvent struct {
	Name string `json:"name"`
	Time int64  `json:"unix_nano"`
}

// maxSpanLine bounds a line of a trace file, in bytes.
const maxSpanLine = 1 << 20

// ReadSpans reads a trace file. A last line that was cut short, by a process that was
// killed, is left out; any other line that is no span is an error that names it.
func ReadSpans(r io.Reader) ([]Span, error) {
	var spans []Span
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return spans, nil
		case err != nil:
			return spans, err
		case len(line) > maxSpanLine:
			return spans, fmt.Errorf("line %d is %d bytes long, want at most %d", n, len(line), maxSpanLine)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var s Span
		if err := json.Unmarshal(line, &s); err != nil {
			return spans, fmt.Errorf("line %d is no span: %w", n, err)
		}
		spans = append(spans, s)
	}
}

// spanFile appends spans to a file. Each batch is one write, so that processes may share a file.
type spanFile struct {
	mu   sync.Mutex
	file *os.File
}

func openSpanFile(path string) (*spanFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &spanFile{file: file}, nil
}

// ExportSpans implements sdktrace.SpanExporter.
func (f *spanFile) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, s := range spans {
		if err := encoder.Encode(spanOf(s)); err != nil {
			return fmt.Errorf("write span %s: %w", s.Name(), err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.file.Write(text.Bytes())
	return err
}

// Shutdown implements sdktrace.SpanExporter.
func (f *spanFile) Shutdown(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}

func spanOf(s sdktrace.ReadOnlySpan) Span {
	out := Span{
		TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().String(),
		Name: s.Name(), Kind: s.SpanKind().String(), Start: s.StartTime().UnixNano(), End: s.EndTime().UnixNano(),
	}
	if s.Parent().SpanID() != (trace.SpanID{}) {
		out.ParentID = s.Parent().SpanID().String()
	}
	for _, a := range s.Resource().Attributes() {
		switch a.Key {
		case "service.name":
			out.Service = a.Value.AsString()
		case "service.instance.id":
			out.Instance = a.Value.AsString()
		}
	}
	for _, a := range s.Attributes() {
		if out.Attributes == nil {
			out.Attributes = make(map[string]any)
		}
		out.Attributes[string(a.Key)] = a.Value.AsInterface()
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, SpanEvent{Name: e.Name, Time: e.Time.UnixNano()})
	}
	if s.Status().Code == codes.Error {
		out.Error = s.Status().Description
	}
	return out
}

var _ sdktrace.SpanExporter = (*spanFile)(nil)
