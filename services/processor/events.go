package processor

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/kvevent"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// resyncEvery is after how many corrections a worker is asked for all that it holds.
const resyncEvery = 16

// events keeps the router's index in step with what the workers of a pool publish. The nil value is
// there where nothing carries events: it does nothing.
type events struct {
	follower *kvevent.Follower
	dial     func(address string) (*grpc.ClientConn, error)

	mu        sync.Mutex // guards instances
	instances map[kvevent.Source]*instancev1.Instance
}

func newEvents(cfg kvevent.FollowerConfig, deps Deps, to *router.Router) (*events, error) {
	e := &events{dial: deps.Dial, instances: map[kvevent.Source]*instancev1.Instance{}}
	var err error
	e.follower, err = kvevent.NewFollower(cfg, kvevent.Deps{
		NATS: deps.NATS, Snapshot: e.snapshot, Known: e.known, Sink: sink{to}, Logger: deps.Logger, Meter: deps.Meter,
	})
	return e, err
}

// sink is the router as the follower sees it.
type sink struct{ router *router.Router }

var _ kvevent.Sink = sink{}

func workerOf(s kvevent.Source) router.WorkerID {
	return router.WorkerID{Name: s.Worker, Incarnation: s.Incarnation}
}

// Stored implements kvevent.Sink.
func (s sink) Stored(of kvevent.Source, tier block.Tier, parent block.Hash, chain []block.Hash) {
	s.router.Stored(workerOf(of), tier, parent, chain)
}

// Removed implements kvevent.Sink.
func (s sink) Removed(of kvevent.Source, tier block.Tier, hashes []block.Hash) {
	s.router.Removed(workerOf(of), tier, hashes)
}

// Reset implements kvevent.Sink.
func (s sink) Reset(of kvevent.Source) { s.router.Reset(workerOf(of)) }

// Gone implements kvevent.Sink.
func (s sink) Gone(of kvevent.Source) { s.router.Reset(workerOf(of)) }

func source(in *instancev1.Instance) kvevent.Source {
	return kvevent.Source{Worker: in.GetId(), Incarnation: in.GetIncarnation(), Rank: in.GetModel().GetDpRank()}
}

// known is kvevent.Deps.Known: whether discovery has named that life of a worker.
func (e *events) known(s kvevent.Source) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.instances[s] != nil
}

// join follows a worker that the router has just come to know. What its events said before was lost on
// the router, so all is asked for.
func (e *events) join(in *instancev1.Instance) {
	if e == nil || !in.GetModel().GetKvEvents() {
		return
	}
	s := source(in)
	e.mu.Lock()
	e.instances[s] = in
	e.mu.Unlock()
	e.follower.Forget(s.Worker)
	e.follower.Follow(s)
}

// leave forgets a worker, unless a later life of it is followed already.
func (e *events) leave(in *instancev1.Instance) {
	if e == nil {
		return
	}
	s := source(in)
	e.mu.Lock()
	delete(e.instances, s)
	again := false
	for other := range e.instances {
		again = again || other.Worker == s.Worker
	}
	e.mu.Unlock()
	if !again {
		e.follower.Forget(s.Worker)
	}
}

// reported takes in the number that a load report repeats.
func (e *events) reported(in *instancev1.Instance, sequence uint64) {
	if e != nil && in.GetModel().GetKvEvents() {
		e.follower.Reported(source(in), sequence)
	}
}

// counts are the follower's, zero without one.
func (e *events) counts() kvevent.Counts {
	if e == nil {
		return kvevent.Counts{}
	}
	return e.follower.Counts()
}

// sequences are the numbers of the last events that the index has, by worker.
func (e *events) sequences() map[router.WorkerID]uint64 {
	last := map[router.WorkerID]uint64{}
	if e != nil {
		for _, s := range e.follower.Sources() {
			last[workerOf(s.Source)] = s.Sequence
		}
	}
	return last
}

// snapshot is kvevent.Deps.Snapshot.
func (e *events) snapshot(ctx context.Context, s kvevent.Source) (kvevent.Parts, error) {
	e.mu.Lock()
	in := e.instances[s]
	e.mu.Unlock()
	if in == nil {
		return nil, fmt.Errorf("worker %s/%s is not there any more", s.Worker, s.Incarnation)
	}
	conn, err := e.dial(in.GetAddress())
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() }) // whoever asked ends ctx
	query := &kveventv1.SnapshotQuery{Incarnation: s.Incarnation, DpRank: s.Rank}
	if in.GetRole() == instancev1.Role_ROLE_PREFILL_WORKER {
		stream, err := prefillworkerv1.NewPrefillWorkerClient(conn).Snapshot(ctx, &prefillworkerv1.SnapshotRequest{Query: query})
		if err != nil {
			return nil, err
		}
		return kvevent.PartsOf(stream), nil
	}
	stream, err := decodeworkerv1.NewDecodeWorkerClient(conn).Snapshot(ctx, &decodeworkerv1.SnapshotRequest{Query: query})
	if err != nil {
		return nil, err
	}
	return kvevent.PartsOf(stream), nil
}
