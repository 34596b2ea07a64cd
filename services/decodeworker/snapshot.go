package decodeworker

import (
	"google.golang.org/grpc"

	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// Snapshot implements decodeworkerv1.DecodeWorkerServer.
func (d *DecodeWorker) Snapshot(q *decodeworkerv1.SnapshotRequest, stream grpc.ServerStreamingServer[decodeworkerv1.SnapshotResponse]) error {
	return d.deps.Worker.Events.Snapshot(q.GetQuery(), func(part *kveventv1.SnapshotPart) error {
		return stream.Send(&decodeworkerv1.SnapshotResponse{Part: part})
	})
}
