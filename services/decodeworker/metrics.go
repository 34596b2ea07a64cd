package decodeworker

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-llm/switchyard/libs/telemetry"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
)

// observe shows the counters of the hand-offs as metrics.
func (d *DecodeWorker) observe(m metric.MeterProvider) error {
	counts := func(name, help, label string, read func(r *decodeworkerv1.HandOffReport) map[string]uint64) telemetry.Observed {
		return telemetry.Observed{
			Name: name, Help: help, Label: label, Read: func() map[string]uint64 { return read(d.handOffReport()) },
		}
	}
	return telemetry.Observe(m.Meter("switchyard/decodeworker"),
		counts("switchyard.handoff.sequences", "Sequences by where their prompt was computed", "placement",
			func(r *decodeworkerv1.HandOffReport) map[string]uint64 {
				return map[string]uint64{"local": r.GetLocal(), "remote": r.GetRemote(), "fallback": r.GetFallback()}
			}),
		counts("switchyard.handoff.reasons", "Decisions and fallbacks by their reason", "reason",
			(*decodeworkerv1.HandOffReport).GetReasons),
		counts("switchyard.handoff.claims", "Claims by their answer", "answer",
			func(r *decodeworkerv1.HandOffReport) map[string]uint64 {
				return map[string]uint64{
					"granted": r.GetClaimsGranted(), "repeated": r.GetClaimsRepeated(), "later": r.GetClaimsLater(), "gone": r.GetClaimsGone(),
				}
			}),
		counts("switchyard.handoff.notes", "Completion notes by their outcome", "outcome",
			func(r *decodeworkerv1.HandOffReport) map[string]uint64 {
				return map[string]uint64{"committed": r.GetNotesCommitted(), "stale": r.GetNotesStale(), "gone": r.GetNotesGone()}
			}),
		counts("switchyard.handoff.quarantine", "Tickets whose lease ended, and that left QUARANTINE by their proof", "event",
			func(r *decodeworkerv1.HandOffReport) map[string]uint64 {
				return map[string]uint64{
					"expired": r.GetTicketsExpired(), "settled_by_word": r.GetQuarantineSettledByWord(), "settled_by_fence": r.GetQuarantineSettledByFence(),
				}
			}))
}
