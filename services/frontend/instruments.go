package frontend

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// scope names this package to tracers and meters.
const scope = "github.com/switchyard-llm/switchyard/services/frontend"

// instruments are the service's metrics.
type instruments struct {
	requests         metric.Int64Counter
	active           metric.Int64UpDownCounter
	duration         metric.Float64Histogram
	timeToFirstToken metric.Float64Histogram
	interToken       metric.Float64Histogram
	promptTokens     metric.Int64Counter
	cachedTokens     metric.Int64Counter
	completionTokens metric.Int64Counter

	// Sets of attributes are made once: to make one takes longer than to count.
	ends   sync.Map // ended → metric.MeasurementOption
	models sync.Map // name → metric.MeasurementOption
}

// ended is how a request ended.
type ended struct {
	kind   string
	status int
}

func newInstruments(provider metric.MeterProvider) (*instruments, error) {
	m := provider.Meter(scope)
	var i instruments
	var errs []error
	counter := func(name, unit, help string) metric.Int64Counter {
		c, err := m.Int64Counter("switchyard.frontend."+name, metric.WithUnit(unit), metric.WithDescription(help))
		errs = append(errs, err)
		return c
	}
	seconds := func(name, help string, bounds ...float64) metric.Float64Histogram {
		h, err := m.Float64Histogram("switchyard.frontend."+name, metric.WithUnit("s"), metric.WithDescription(help),
			metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	i.requests = counter("requests", "{request}", "Requests that ended, by kind and status.")
	i.promptTokens = counter("prompt_tokens", "{token}", "Tokens of the prompts of answered requests.")
	i.cachedTokens = counter("cached_tokens", "{token}", "Tokens of these prompts that were cached.")
	i.completionTokens = counter("completion_tokens", "{token}", "Tokens of the answers.")
	i.duration = seconds("request_duration", "From a request to the end of its answer.",
		.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
	i.timeToFirstToken = seconds("time_to_first_token", "From a request to the first piece of its answer.",
		.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
	i.interToken = seconds("inter_token_latency", "Mean time between the tokens of an answer.",
		.001, .0025, .005, .01, .015, .02, .03, .05, .075, .1, .25, .5, 1)
	active, err := m.Int64UpDownCounter("switchyard.frontend.active_requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests in flight."))
	i.active = active
	return &i, errors.Join(append(errs, err)...)
}

// count notes a request that ended.
func (i *instruments) count(ctx context.Context, kind string, status int) {
	i.requests.Add(ctx, 1, madeOnce(&i.ends, ended{kind, status}, func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("kind", kind), attribute.Int("status", status)}
	}))
}

func (i *instruments) ofModel(name string) metric.MeasurementOption {
	return madeOnce(&i.models, name, func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("model", name)}
	})
}

// madeOnce gives the attributes of key, which are made when they are asked for first.
func madeOnce[K comparable](all *sync.Map, key K, attributes func() []attribute.KeyValue) metric.MeasurementOption {
	with, ok := all.Load(key)
	if !ok {
		with, _ = all.LoadOrStore(key, metric.WithAttributeSet(attribute.NewSet(attributes()...)))
	}
	return with.(metric.MeasurementOption)
}

// settled notes a request that the service answered. Only what the processor served has a
// model in its metrics: names that clients make up must not make series.
func (i *instruments) settled(ctx context.Context, o outcome) {
	i.count(ctx, o.a.kind.name, o.status)
	end := o.a.end
	if end == nil {
		return
	}
	model := i.ofModel(end.GetModel())
	i.duration.Record(ctx, o.elapsed.Seconds(), model)
	i.timeToFirstToken.Record(ctx, o.timeToFirstToken().Seconds(), model)
	if itl, ok := o.interTokenLatency(); ok {
		i.interToken.Record(ctx, itl.Seconds(), model)
	}
	i.promptTokens.Add(ctx, int64(end.GetUsage().GetPromptTokens()), model)
	i.cachedTokens.Add(ctx, int64(end.GetUsage().GetCachedTokens()), model)
	i.completionTokens.Add(ctx, int64(end.GetUsage().GetCompletionTokens()), model)
}
