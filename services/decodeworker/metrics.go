package decodeworker

import (
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-llm/switchyard/libs/telemetry"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
)

// observe shows the counters of the hand-offs, and what was learnt from them, as metrics.
func (d *DecodeWorker) observe(m metric.MeterProvider) (err error) {
	meter := m.Meter("switchyard/decodeworker")
	if d.metrics, err = newMetrics(meter); err != nil {
		return err
	}
	counts := func(name, help, label string, read func(r *decodeworkerv1.HandOffReport) map[string]uint64) telemetry.Observed {
		return telemetry.Observed{
			Name: name, Help: help, Label: label, Read: func() map[string]uint64 { return read(d.handOffReport()) },
		}
	}
	return telemetry.Observe(meter,
		telemetry.Observed{
			Name: "switchyard.handoff.learnt", Help: "What prefills are taken to take, in microseconds, by part", Label: "part", Gauge: true, Read: d.learnt,
		},
		telemetry.Observed{
			Name: "switchyard.handoff.link", Help: "Bandwidth from each prefill worker, as measured, in bytes per second", Label: "peer", Gauge: true, Read: d.measuredLinks,
		},
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
		counts("switchyard.handoff.calls", "Calls of prefill workers by their outcome (pull, rendezvous)", "outcome",
			(*decodeworkerv1.HandOffReport).GetPrefillCalls),
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

func (d *DecodeWorker) learnt() map[string]uint64 {
	s, parts := d.speeds.Speeds(time.Now()), make(map[string]uint64)
	for part, t := range map[string]time.Duration{
		"local_token": s.LocalToken, "local_overhead": s.LocalOverhead, "step": s.Step, "step_sequence": s.StepSequence,
		"remote_token": s.RemoteToken, "remote_overhead": s.RemoteOverhead, "admission": s.Admission, "job": s.Job,
	} {
		parts[part] = uint64(t.Microseconds())
	}
	return parts
}
