package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	// Keys of a service's resource, as OpenTelemetry names them.
	serviceKey  = attribute.Key("service.name")
	instanceKey = attribute.Key("service.instance.id")
	// exportDelay is how long a span may wait for company before it is written.
	exportDelay = 200 * time.Millisecond
)

// Config says what is observed and where it goes.
type Config struct {
	// OTLPEndpoint receives spans over gRPC: http://host:4317, or https. Empty: none.
	OTLPEndpoint string `yaml:"otlp_endpoint" help:"where spans go over OTLP gRPC, such as http://host:4317"`
	// TraceFile receives spans as lines of JSON, see Span; processes may share it. Empty: none.
	TraceFile string `yaml:"trace_file" help:"file to which spans are appended, one JSON object a line"`
	// LogLevel is debug, info, warn or error.
	LogLevel string `yaml:"log_level" help:"debug, info, warn or error"`
	// LogFormat is text or json.
	LogFormat string `yaml:"log_format" help:"text or json"`
	// LogOutput receives the log. Nil: standard error.
	LogOutput io.Writer `yaml:"-"`
}

// DefaultConfig logs text from level info on and traces nothing.
func DefaultConfig() Config { return Config{LogLevel: "info", LogFormat: "text"} }

// Validate names the first field that is not as expected.
func (c Config) Validate() error {
	if c.OTLPEndpoint != "" {
		u, err := url.Parse(c.OTLPEndpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("otlp_endpoint is %q, want http://host:port or https://host:port", c.OTLPEndpoint)
		}
	}
	_, err := NewLogger(io.Discard, c.LogFormat, c.LogLevel)
	return err
}

// Telemetry is the observation of one service.
type Telemetry struct {
	log    *slog.Logger
	tracer trace.TracerProvider
	meter  *sdkmetric.MeterProvider
	shared *shared
}

// shared is what the services of a process have in common.
type shared struct {
	root     *slog.Logger
	spans    sdktrace.SpanProcessor // nil when nothing is traced
	registry *prometheus.Registry
}

// Open prepares the observation of a service of this process; service is its role, such
// as decodeworker, and instance its id. A second service of the process uses For. ctx
// bounds the opening only; an OTLP endpoint that is not there is no error.
func Open(ctx context.Context, cfg Config, service, instance string) (*Telemetry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("telemetry.%w", err)
	}
	if cfg.LogOutput == nil {
		cfg.LogOutput = os.Stderr
	}
	root, err := NewLogger(cfg.LogOutput, cfg.LogFormat, cfg.LogLevel)
	if err != nil {
		return nil, err
	}
	s := &shared{root: root, registry: prometheus.NewRegistry()}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := s.openTraces(ctx, cfg); err != nil {
		return nil, err
	}
	t, err := s.service(service, instance)
	if err != nil {
		return nil, errors.Join(err, s.shutdown(ctx))
	}
	return t, nil
}

func (s *shared) openTraces(ctx context.Context, cfg Config) error {
	var targets exporters
	if cfg.TraceFile != "" {
		file, err := openSpanFile(cfg.TraceFile)
		if err != nil {
			return fmt.Errorf("telemetry.trace_file is %q: %w", cfg.TraceFile, err)
		}
		targets = append(targets, file)
	}
	if cfg.OTLPEndpoint != "" {
		otlp, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(cfg.OTLPEndpoint))
		if err != nil {
			return fmt.Errorf("telemetry.otlp_endpoint is %q: %w", cfg.OTLPEndpoint, err)
		}
		targets = append(targets, otlp)
	}
	if len(targets) > 0 {
		s.spans = sdktrace.NewBatchSpanProcessor(targets, sdktrace.WithBatchTimeout(exportDelay))
	}
	return nil
}

// For prepares the observation of another service of the same process: it shares the
// exporters and the registry, and its logs, spans and metrics carry its own name.
func (t *Telemetry) For(service, instance string) (*Telemetry, error) {
	return t.shared.service(service, instance)
}

func (s *shared) service(service, instance string) (*Telemetry, error) {
	res := resource.NewSchemaless(serviceKey.String(service), instanceKey.String(instance))
	reader, err := promexporter.New(
		promexporter.WithRegisterer(s.registry),
		promexporter.WithoutTargetInfo(),
		promexporter.WithoutScopeInfo(),
		promexporter.WithResourceAsConstantLabels(attribute.NewAllowKeysFilter(serviceKey, instanceKey)),
	)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", service, err)
	}
	t := &Telemetry{
		log:    s.root.With("service", service, "instance", instance),
		tracer: noop.NewTracerProvider(),
		meter:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(res)),
		shared: s,
	}
	if s.spans != nil {
		t.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans), sdktrace.WithResource(res))
	}
	return t, nil
}

// Logger is the service's logger.
func (t *Telemetry) Logger() *slog.Logger { return t.log }

// Tracer makes the service's spans.
func (t *Telemetry) Tracer() trace.TracerProvider { return t.tracer }

// Meter makes the service's metrics.
func (t *Telemetry) Meter() metric.MeterProvider { return t.meter }

// Metrics answers with the metrics of all services of the process, for Prometheus.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.shared.registry, promhttp.HandlerOpts{})
}

// Shutdown writes what waits and ends the exporting for all services of the process; ctx
// bounds it. Spans that end later are lost.
func (t *Telemetry) Shutdown(ctx context.Context) error { return t.shared.shutdown(ctx) }

func (s *shared) shutdown(ctx context.Context) error {
	if s.spans == nil {
		return nil
	}
	if err := s.spans.Shutdown(ctx); err != nil {
		return fmt.Errorf("end telemetry: %w", err)
	}
	return nil
}

// exporters hands spans to each of several exporters.
type exporters []sdktrace.SpanExporter

var _ sdktrace.SpanExporter = exporters(nil)

// ExportSpans gives the spans to all, whoever fails.
func (e exporters) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	var errs []error
	for _, x := range e {
		errs = append(errs, x.ExportSpans(ctx, spans))
	}
	return errors.Join(errs...)
}

// Shutdown ends all.
func (e exporters) Shutdown(ctx context.Context) error {
	var errs []error
	for _, x := range e {
		errs = append(errs, x.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
