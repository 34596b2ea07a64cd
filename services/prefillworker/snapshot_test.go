package prefillworker

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/kvevent"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

func TestASnapshotTellsWhatThePrefillWorkerHolds(t *testing.T) {
	h := newHarness(t, pulls)
	h.worker.Events.PublishOver(h.conn, kvevent.Prefill)
	h.start()
	client := h.client()
	if _, err := client.Prefill(within(t), request("a")); err != nil {
		t.Fatal(err)
	}
	ask := func(incarnation string) (*kveventv1.SnapshotPart, error) {
		stream, err := client.Snapshot(within(t), &prefillworkerv1.SnapshotRequest{Query: &kveventv1.SnapshotQuery{Incarnation: incarnation}})
		if err != nil {
			t.Fatal(err)
		}
		return kvevent.PartsOf(stream).Recv()
	}
	part, err := ask("1")
	if err != nil {
		t.Fatal(err)
	}
	if held := h.worker.Pool.Snapshot(); len(held.Blocks) == 0 || len(part.GetRuns().GetHashes()) != len(held.Blocks) || part.GetSequence() != held.Sequence {
		t.Errorf("%v, want the %d blocks at %d", part, len(held.Blocks), held.Sequence)
	}
	if _, err := ask("0"); rpc.Code(err) != codes.FailedPrecondition {
		t.Errorf("another life: %v, want a failed precondition", err)
	}
	if _, err := client.Cancel(within(t), &prefillworkerv1.CancelRequest{TransferId: request("a").GetTransferId(), AttemptId: "a", PrefillIncarnation: "1"}); err != nil {
		t.Error(err) // it is held: the worker would not leave before that has ended
	}
}
