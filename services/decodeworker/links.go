package decodeworker

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/probe"
	"github.com/switchyard-llm/switchyard/services/decodeworker/speed"
)

var _ probe.Links = (*speed.Learner)(nil)

// probeLoop measures links until serving ends, or ctx: a worker that drains looks for no others.
func (d *DecodeWorker) probeLoop(ctx, serving context.Context) error {
	if d.probes == nil {
		return nil
	}
	probing, cancel := context.WithCancel(serving)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return d.probes.Run(probing)
}

// linkSources are those of the contract.
var linkSources = map[speed.Source]decodeworkerv1.LinkSource{
	speed.ByStart:     decodeworkerv1.LinkSource_LINK_SOURCE_START,
	speed.ByProbe:     decodeworkerv1.LinkSource_LINK_SOURCE_PROBE,
	speed.ByTransfers: decodeworkerv1.LinkSource_LINK_SOURCE_TRANSFERS,
}

// linkReport is what is known of the links as it is published.
func (d *DecodeWorker) linkReport() []*decodeworkerv1.Link {
	links := d.speeds.Links(time.Now())
	report := make([]*decodeworkerv1.Link, len(links))
	for i, l := range links {
		report[i] = &decodeworkerv1.Link{
			PrefillWorker: l.PrefillWorker, Class: l.Class.String(), BytesPerSecond: l.BytesPerSecond,
			Latency: durationpb.New(l.Latency), MeasuredBy: linkSources[l.MeasuredBy],
		}
	}
	return report
}

// measuredLinks are the bandwidths that a probe or transfers have told, by prefill worker.
func (d *DecodeWorker) measuredLinks() map[string]uint64 {
	measured := make(map[string]uint64)
	for _, l := range d.speeds.Links(time.Now()) {
		if l.MeasuredBy != speed.ByStart {
			measured[l.PrefillWorker] = uint64(l.BytesPerSecond)
		}
	}
	return measured
}
