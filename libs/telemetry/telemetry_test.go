package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, change func(*Config)) *Telemetry {
	t.Helper()
	cfg := DefaultConfig()
	cfg.LogOutput = io.Discard
	if change != nil {
		change(&cfg)
	}
	tel, err := Open(t.Context(), cfg, "decodeworker", "decode-0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tel
}

func TestSpansOfAllServicesComeToTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spans.jsonl")
	tel := open(t, func(c *Config) { c.TraceFile = file })
	other, err := tel.For("prefillworker", "prefill-1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, parent := tel.Tracer().Tracer("x").Start(t.Context(), "reserve", trace.WithSpanKind(trace.SpanKindProducer))
	parent.SetAttributes(attribute.Int("blocks", 3), attribute.StringSlice("to", []string{"a"}))
	parent.AddEvent("full")
	_, child := other.Tracer().Tracer("x").Start(ctx, "write")
	child.SetStatus(codes.Error, "peer is gone")
	child.End()
	parent.End()
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A killed process leaves half a line.
	appendTo(t, file, `{"trace_id":"`)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	spans, err := ReadSpans(f)
	if err != nil || len(spans) != 2 {
		t.Fatalf("%d spans, %v; want 2 and the half line left out", len(spans), err)
	}
	write, reserve := spans[0], spans[1]
	if write.ParentID != reserve.SpanID || write.TraceID != reserve.TraceID || reserve.ParentID != "" {
		t.Errorf("write %+v is no child of reserve %+v", write, reserve)
	}
	if write.Service != "prefillworker" || write.Instance != "prefill-1" || write.Error != "peer is gone" || write.Kind != "internal" {
		t.Errorf("write = %+v", write)
	}
	if reserve.Service != "decodeworker" || reserve.Kind != "producer" || reserve.End < write.End || reserve.Start > write.Start {
		t.Errorf("reserve = %+v", reserve)
	}
	want := map[string]any{"blocks": 3.0, "to": []any{"a"}}
	if d := cmp.Diff(want, reserve.Attributes); d != "" {
		t.Errorf("attributes (-want +got):\n%s", d)
	}
	if len(reserve.Events) != 1 || reserve.Events[0].Name != "full" || reserve.Events[0].Time < reserve.Start {
		t.Errorf("events = %+v", reserve.Events)
	}
}

func appendTo(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutATargetNothingIsTracedAndTheContextPasses(t *testing.T) {
	tel := open(t, nil)
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{8}})
	ctx, span := tel.Tracer().Tracer("x").Start(trace.ContextWithRemoteSpanContext(t.Context(), remote), "step")
	if span.IsRecording() {
		t.Error("the span is recorded")
	}
	if got := trace.SpanContextFromContext(ctx).TraceID(); got != remote.TraceID() {
		t.Errorf("trace %v after the step, want %v", got, remote.TraceID())
	}
}

func TestAnEndpointThatIsNotThereHindersNobody(t *testing.T) {
	tel := open(t, func(c *Config) { c.OTLPEndpoint = "http://127.0.0.1:1" })
	_, span := tel.Tracer().Tracer("x").Start(t.Context(), "step")
	if !span.IsRecording() {
		t.Error("the span is not recorded")
	}
	// It never ends, so that the shutdown has nothing to send in vain.
}

func serve(t *testing.T, o HTTPOptions) (url string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ServeHTTP(ctx, lis, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ServeHTTP = %v, want nil", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + lis.Addr().String()
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestMetricsOfTwoServicesStandSideBySide(t *testing.T) {
	tel := open(t, nil)
	other, err := tel.For("decodeworker", "decode-1")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range []*Telemetry{tel, other} {
		steps, err := s.Meter().Meter("x").Int64Counter("switchyard.steps")
		if err != nil {
			t.Fatal(err)
		}
		steps.Add(t.Context(), int64(i+1))
	}
	status, body := fetch(t, serve(t, HTTPOptions{Metrics: tel.Metrics()})+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	for _, want := range []string{
		`switchyard_steps_total{service_instance_id="decode-0",service_name="decodeworker"} 1`,
		`switchyard_steps_total{service_instance_id="decode-1",service_name="decodeworker"} 2`,
		"go_goroutines",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %q:\n%s", want, body)
		}
	}
}

func TestHealthAndProfiles(t *testing.T) {
	var health error
	url := serve(t, HTTPOptions{Health: func() error { return health }, Pprof: true})
	if status, _ := fetch(t, url+"/health"); status != http.StatusOK {
		t.Errorf("healthy: status %d", status)
	}
	health = errors.New("no model yet")
	if status, body := fetch(t, url+"/health"); status != http.StatusServiceUnavailable || !strings.Contains(body, "no model yet") {
		t.Errorf("unhealthy: status %d, %q", status, body)
	}
	if status, _ := fetch(t, url+"/debug/pprof/goroutine"); status != http.StatusOK {
		t.Errorf("profile: status %d", status)
	}
	if status, _ := fetch(t, url+"/metrics"); status != http.StatusNotFound {
		t.Errorf("metrics that are not served: status %d", status)
	}
}

func TestLogLinesCarryTheIdsOfTheirContext(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0xab}, SpanID: trace.SpanID{1}})
	ctx := WithRequestID(trace.ContextWithSpanContext(t.Context(), span), "r-1")
	log.With("worker_id", "w").InfoContext(ctx, "claimed")
	log.DebugContext(ctx, "too fine")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %q", err, &out)
	}
	for key, want := range map[string]string{"msg": "claimed", "worker_id": "w", "request_id": "r-1", "trace_id": span.TraceID().String()} {
		if line[key] != want {
			t.Errorf("%s = %v, want %s", key, line[key], want)
		}
	}
	out.Reset()
	log.Info("plain")
	if strings.Contains(out.String(), "_id") {
		t.Errorf("a line without a context has ids: %s", &out)
	}
}

func TestInvalidConfigurationNamesTheField(t *testing.T) {
	for field, spoil := range map[string]func(*Config){
		"otlp_endpoint": func(c *Config) { c.OTLPEndpoint = "host:4317" },
		"log_level":     func(c *Config) { c.LogLevel = "loud" },
		"log_format":    func(c *Config) { c.LogFormat = "xml" },
		"trace_file":    func(c *Config) { c.TraceFile = "/nonexistent/spans" },
	} {
		cfg := DefaultConfig()
		spoil(&cfg)
		if _, err := Open(t.Context(), cfg, "x", "y"); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func FuzzReadSpans(f *testing.F) {
	f.Add([]byte(`{"trace_id":"0123456789abcdef0123456789abcdef","span_id":"0123456789abcdef","name":"x","attributes":{"a":[1]}}` + "\n{}\n\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		spans, err := ReadSpans(bytes.NewReader(data))
		if lines := bytes.Count(data, []byte("\n")); len(spans) > lines || err == nil && len(spans) < bytes.Count(data, []byte("}\n")) {
			t.Errorf("%d spans in %d lines, %v", len(spans), lines, err)
		}
	})
}

func BenchmarkLogWithIds(b *testing.B) {
	log, err := NewLogger(io.Discard, "text", "info")
	if err != nil {
		b.Fatal(err)
	}
	ctx := WithRequestID(b.Context(), "r-1")
	for b.Loop() {
		log.InfoContext(ctx, "claimed", "blocks", 3)
	}
}

func TestObservedMetricsAreReadWhenAskedFor(t *testing.T) {
	tel := open(t, func(*Config) {})
	n := uint64(1)
	err := Observe(tel.Meter().Meter(""),
		Observed{Name: "plain", Read: func() map[string]uint64 { return One(n) }},
		Observed{Name: "level", Gauge: true, Label: "kind", Read: func() map[string]uint64 { return map[string]uint64{"x": n, "y": 5} }})
	if err != nil {
		t.Fatal(err)
	}
	n = 7
	recorder := httptest.NewRecorder()
	tel.Metrics().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`plain_total{`, `} 7`, `level{kind="x"`, `level{kind="y"`} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("metrics lack %s:\n%s", want, recorder.Body)
		}
	}
	if err := Observe(tel.Meter().Meter(""), Observed{Name: "bad name", Read: func() map[string]uint64 { return nil }}); err == nil {
		t.Error("a bad name was taken")
	}
}
