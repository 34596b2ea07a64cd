package rpc

import (
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
)

// otelOptions observes all calls but those of the health service, which come all the
// time. Without providers nothing is observed: the process-wide ones are never used.
func otelOptions(tracer trace.TracerProvider, meter metric.MeterProvider) []otelgrpc.Option {
	if tracer == nil {
		tracer = notrace.NewTracerProvider()
	}
	if meter == nil {
		meter = nometric.NewMeterProvider()
	}
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(tracer),
		otelgrpc.WithMeterProvider(meter),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(filters.Not(filters.HealthCheck())),
	}
}
