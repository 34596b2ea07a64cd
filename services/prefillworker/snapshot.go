package prefillworker

import (
	"google.golang.org/grpc"

	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// Snapshot implements prefillworkerv1.PrefillWorkerServer.
func (p *PrefillWorker) Snapshot(q *prefillworkerv1.SnapshotRequest, stream grpc.ServerStreamingServer[prefillworkerv1.SnapshotResponse]) error {
	return p.deps.Worker.Events.Snapshot(q.GetQuery(), func(part *kveventv1.SnapshotPart) error {
		return stream.Send(&prefillworkerv1.SnapshotResponse{Part: part})
	})
}
