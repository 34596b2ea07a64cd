package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Observed is a metric that is read when somebody asks for it.
type Observed struct {
	Name, Help string
	// Gauge is for what may fall; without it the values only grow.
	Gauge bool
	// Label names the dimension of the values; unset: there is one value, of any key.
	Label string
	// Read tells the values by the label's value. It is called from any goroutine.
	Read func() map[string]uint64
}

// One is the values of a metric without a label.
func One[N int | uint64](n N) map[string]uint64 { return map[string]uint64{"": uint64(n)} }

// Observe registers metrics with a meter.
func Observe(m metric.Meter, metrics ...Observed) error {
	for _, o := range metrics {
		read := func(_ context.Context, to metric.Int64Observer) error {
			for value, n := range o.Read() {
				if o.Label == "" {
					to.Observe(int64(n))
					continue
				}
				to.Observe(int64(n), metric.WithAttributes(attribute.String(o.Label, value)))
			}
			return nil
		}
		var err error
		if o.Gauge {
			_, err = m.Int64ObservableGauge(o.Name, metric.WithDescription(o.Help), metric.WithInt64Callback(read))
		} else {
			_, err = m.Int64ObservableCounter(o.Name, metric.WithDescription(o.Help), metric.WithInt64Callback(read))
		}
		if err != nil {
			return fmt.Errorf("metric %s: %w", o.Name, err)
		}
	}
	return nil
}
