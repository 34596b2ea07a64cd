package kvevent

import (
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// partBlocks keeps a part of a snapshot far below what gRPC takes in one message.
const partBlocks = 1 << 13

// snapshotRetry is when those whom Snapshots refuses may ask again.
const snapshotRetry = 200 * time.Millisecond

// Snapshots answers those who have missed events.
type Snapshots struct {
	log    Log
	header Header
	places chan struct{} // filled by those that are being answered
}

// NewSnapshots returns a server that answers at most atOnce at a time.
func NewSnapshots(log Log, h Header, atOnce int) *Snapshots {
	return &Snapshots{log: log, header: h, places: make(chan struct{}, atOnce)}
}

// Serve answers a query by calls of send, whose error ends it. Errors: FAILED_PRECONDITION when
// another incarnation is meant, NOT_FOUND for another rank, RESOURCE_EXHAUSTED when too many ask.
func (s *Snapshots) Serve(q *kveventv1.SnapshotQuery, send func(*kveventv1.SnapshotPart) error) error {
	switch self := s.header.Source; {
	case q.GetIncarnation() != self.Incarnation:
		return rpc.FailedPrecondition("incarnation",
			fmt.Sprintf("query.incarnation is %q, this is %s", q.GetIncarnation(), self.Incarnation))
	case q.GetDpRank() != self.Rank:
		return rpc.NotFound("rank", fmt.Sprint(q.GetDpRank()))
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		return rpc.ResourceExhausted(fmt.Sprintf("%d snapshots are being sent", cap(s.places)), snapshotRetry)
	}
	snapshot := s.log.Snapshot()
	for blocks := snapshot.Blocks; ; {
		n := min(len(blocks), partBlocks)
		part := &kveventv1.SnapshotPart{
			Incarnation: s.header.Source.Incarnation, DpRank: s.header.Source.Rank, Sequence: snapshot.Sequence,
			BlockTokens: uint32(s.header.BlockTokens), Runs: &kveventv1.Runs{}, Last: n == len(blocks),
		}
		encode(part.Runs, blocks[:n])
		if err := send(part); err != nil || part.Last {
			return err
		}
		blocks = blocks[n:]
	}
}
