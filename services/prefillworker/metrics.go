package prefillworker

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-llm/switchyard/libs/telemetry"
)

// observe shows the counters of the jobs as metrics.
func (p *PrefillWorker) observe(m metric.MeterProvider) error {
	return telemetry.Observe(m.Meter("switchyard/prefillworker"),
		telemetry.Observed{
			Name: "switchyard.prefill.jobs", Help: "Jobs taken from the queue and what became of them", Label: "event",
			Read: func() map[string]uint64 {
				r := p.jobReport()
				return map[string]uint64{
					"delivered": r.GetDeliveries(), "redelivered": r.GetRedeliveries(), "committed": r.GetCommitted(),
					"stale": r.GetStale(), "gone": r.GetGone() + r.GetClaimsGone(), "aborted": r.GetAborted(), "failed": r.GetFailed(),
				}
			},
		},
		telemetry.Observed{
			Name: "switchyard.prefill.tokens", Help: "Prompt tokens of committed jobs, by where their keys and values came from", Label: "source",
			Read: func() map[string]uint64 {
				r := p.jobReport()
				return map[string]uint64{"computed": r.GetComputedTokens(), "own_cache": r.GetOwnHitTokens(), "decode_worker": r.GetReadTokens()}
			},
		})
}
