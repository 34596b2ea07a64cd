package prefillworker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

const (
	// probeFor is how long a decode worker may read the probe memory after it asked: it needs two
	// seconds at most. So one that asks and never connects leaves nothing behind.
	probeFor = 10 * time.Second
	// probesMax bounds the decode workers that may read it at once.
	probesMax = 256
)

// probes are the leaves to read the probe memory.
type probes struct {
	mu     sync.Mutex // guards leaves; held while one is given or ended
	leaves map[nixl.PeerID]probeLeave
}

type probeLeave struct {
	grant  uint64
	expiry time.Time
}

// Probe implements prefillworkerv1.PrefillWorkerServer.
func (p *PrefillWorker) Probe(_ context.Context, r *prefillworkerv1.ProbeRequest) (*prefillworkerv1.ProbeResponse, error) {
	if err := p.meant(r.GetPrefillIncarnation()); err != nil {
		return nil, err
	}
	peer := nixl.PeerID{Name: r.GetDecodeWorker(), Incarnation: r.GetDecodeIncarnation()}
	if peer.Name == "" || peer.Incarnation == "" {
		return nil, rpc.InvalidArgument("decode_worker", "decode_worker and decode_incarnation are required")
	}
	grant, err := p.letProbe(peer, time.Now())
	if err != nil {
		return nil, err
	}
	return &prefillworkerv1.ProbeResponse{Grant: grant, Bytes: worker.ProbeBytes}, nil
}

// letProbe gives a peer leave to read the probe memory from now on, or prolongs it.
func (p *PrefillWorker) letProbe(peer nixl.PeerID, now time.Time) (grant uint64, err error) {
	s := &p.probes
	s.mu.Lock()
	defer s.mu.Unlock()
	leave, given := s.leaves[peer]
	if !given {
		if len(s.leaves) >= probesMax {
			return 0, rpc.ResourceExhausted(fmt.Sprintf("%d decode workers probe, which is the most", probesMax), 0)
		}
		leave.grant = p.calls.nextGrant()
		g := nixl.Grant{Number: leave.grant, Op: nixl.Read, Region: worker.ProbeRegion, Blocks: worker.ProbeBlocks()}
		if err := p.deps.Worker.Agent.Allow(peer, g); err != nil {
			return 0, fmt.Errorf("allow %s to probe: %w", peer, err)
		}
	}
	leave.expiry = now.Add(probeFor)
	s.leaves[peer] = leave
	return leave.grant, nil
}

// endProbes ends the leaves that match.
func (p *PrefillWorker) endProbes(match func(nixl.PeerID, probeLeave) bool) {
	s := &p.probes
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer, leave := range s.leaves {
		if match(peer, leave) {
			delete(s.leaves, peer)
			p.revoke(peer, leave.grant)
		}
	}
}

// revoke ends a leave to read. Nothing waits for a reader: what it reads from now on is stale.
func (p *PrefillWorker) revoke(peer nixl.PeerID, grant uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.deps.Worker.Agent.Revoke(ctx, peer, grant); err != nil && !errors.Is(err, nixl.ErrStillAlive) {
		p.log.Warn("a leave to read could not be revoked", "peer", peer.String(), "error", err)
	}
}
