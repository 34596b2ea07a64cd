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
					"expired": r.GetExpired(), "given_back": r.GetGivenBack(),
				}
			},
		},
		telemetry.Observed{
			Name: "switchyard.prefill.calls", Help: "Prompts that decode workers asked for, and what became of their holds", Label: "event",
			Read: func() map[string]uint64 {
				r := p.jobReport()
				return map[string]uint64{
					"begun": r.GetCalls(), "refused": r.GetCallsRefused(), "repeated": r.GetCallsRepeated(),
					"held": r.GetHolds(), "released": r.GetHoldsReleased(), "expired": r.GetHoldsExpired(),
					"dropped": r.GetHoldsDropped(), "stale": r.GetStaleReleases(),
				}
			},
		},
		telemetry.Observed{
			Name: "switchyard.prefill.held_blocks", Help: "Blocks held for decode workers to read", Gauge: true,
			Read: func() map[string]uint64 { return telemetry.One(uint64(p.jobReport().GetHeldBlocks())) },
		},
		telemetry.Observed{
			Name: "switchyard.prefill.tokens", Help: "Prompt tokens of committed jobs and released holds, by where their keys and values came from", Label: "source",
			Read: func() map[string]uint64 {
				r := p.jobReport()
				return map[string]uint64{"computed": r.GetComputedTokens(), "own_cache": r.GetOwnHitTokens(), "decode_worker": r.GetReadTokens()}
			},
		})
}
