package processor

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// metrics are the service's instruments.
type metrics struct {
	requests     metric.Int64Counter
	active       metric.Int64UpDownCounter
	promptTokens metric.Int64Counter
	picks        metric.Int64Counter
	hitTokens    metric.Int64Counter
	cachedTokens metric.Int64Counter
	corrections  metric.Int64Counter
	migrations   metric.Int64Counter
	deadLetters  metric.Int64Counter
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	m := &metrics{}
	meter := provider.Meter("switchyard/processor")
	var errs [9]error
	m.requests, errs[0] = meter.Int64Counter("switchyard.processor.requests", metric.WithDescription("Requests that ended, by gRPC code."))
	m.active, errs[1] = meter.Int64UpDownCounter("switchyard.processor.requests.active", metric.WithDescription("Requests in work."))
	m.promptTokens, errs[2] = meter.Int64Counter("switchyard.processor.prompt.tokens", metric.WithDescription("Tokens of prompts."))
	m.picks, errs[3] = meter.Int64Counter("switchyard.processor.picks", metric.WithDescription("Sequences sent, by decode worker."))
	m.hitTokens, errs[4] = meter.Int64Counter("switchyard.processor.expected.cached.tokens",
		metric.WithDescription("Tokens of sequences that the index said the picked worker held."))
	m.migrations, errs[5] = meter.Int64Counter("switchyard.processor.migrations", metric.WithDescription("Sequences that went on to another worker."))
	m.deadLetters, errs[6] = meter.Int64Counter("switchyard.processor.dead.letters",
		metric.WithDescription("Requests that were ended because the workers that computed them died."))
	m.cachedTokens, errs[7] = meter.Int64Counter("switchyard.processor.cached.tokens",
		metric.WithDescription("Tokens of sequences that the worker had when they came, as it says itself."))
	m.corrections, errs[8] = meter.Int64Counter("switchyard.processor.index.corrections",
		metric.WithDescription("Sequences of which a worker had less than its events had said."))
	return m, errors.Join(errs[:]...)
}

// Sets of attributes are made once: to make one takes longer than to count.

var answered = withCode(codes.OK)

func withCode(c codes.Code) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("code", c.String())))
}

func withWorker(name string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("worker", name)))
}

func (m *metrics) ended(ctx context.Context, err error) {
	code := answered
	if err != nil {
		code = withCode(rpc.Code(err))
	}
	m.requests.Add(ctx, 1, code)
}

func (m *metrics) picked(ctx context.Context, p *peer, c *router.Choice) {
	m.picks.Add(ctx, 1, p.counted)
	m.hitTokens.Add(ctx, int64(c.HeldTokens))
}
