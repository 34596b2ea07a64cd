package worker

import (
	"strings"

	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
)

// observe shows the worker's load, work and pool as metrics.
func (w *Worker) observe(m metric.MeterProvider) error {
	report, one := w.Scheduler.Report, telemetry.One[uint64]
	return telemetry.Observe(m.Meter("switchyard/worker"),
		telemetry.Observed{
			Name: "switchyard.worker.sequences", Help: "Sequences that hold blocks, and that wait for them", Gauge: true, Label: "state",
			Read: func() map[string]uint64 {
				r := report()
				return map[string]uint64{"running": uint64(r.Running), "waiting": uint64(r.Waiting)}
			},
		},
		telemetry.Observed{
			Name: "switchyard.worker.prompt_tokens", Help: "Prompt tokens computed",
			Read: func() map[string]uint64 { return one(report().PromptTokens) },
		},
		telemetry.Observed{
			Name: "switchyard.worker.generated_tokens", Help: "Tokens generated",
			Read: func() map[string]uint64 { return one(report().GeneratedTokens) },
		},
		telemetry.Observed{
			Name: "switchyard.worker.pool.blocks", Help: "Blocks of the pool", Gauge: true, Label: "state", Read: w.blocksByState,
		},
		telemetry.Observed{
			Name: "switchyard.worker.pool.evictions", Help: "Cached blocks given up for new ones",
			Read: func() map[string]uint64 { return one(w.Pool.Stats().Evictions) },
		},
		telemetry.Observed{
			Name: "switchyard.worker.kv_events", Help: "Changes of the blocks held: published, and dropped on their way", Label: "outcome",
			Read: w.Events.counts,
		},
		telemetry.Observed{
			Name: "switchyard.worker.transfer.bytes", Help: "Bytes moved by this worker's agent", Label: "op",
			Read: func() map[string]uint64 {
				s := w.Agent.Stats()
				return map[string]uint64{"write": s.BytesWritten, "read": s.BytesRead}
			},
		})
}

func (w *Worker) blocksByState() map[string]uint64 {
	counts := w.Pool.Counts()
	out := make(map[string]uint64, len(counts.Now))
	for state, n := range counts.Now {
		out[strings.ToLower(block.State(state).String())] = uint64(n)
	}
	return out
}
