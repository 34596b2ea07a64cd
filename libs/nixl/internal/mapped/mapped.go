// Package mapped makes the transfers of agents that see their peers' memory in their
// own address space. It starts no goroutine.
package mapped

import (
	"errors"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/grants"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/list"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/mover"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
)

// Peer is a connection with a peer that was added.
type Peer struct {
	ID nixl.PeerID
	// Gate is the connection's own, and tells it from earlier ones.
	Gate    *gate.Gate
	Regions []*region.Region
	// Grants are the peer's, where it checks them; nil where it does not.
	Grants *grants.Table
}

// Transfers is the part of an agent that makes transfers. All fields are required.
type Transfers struct {
	Self    nixl.PeerID
	Regions *region.Table
	Mover   *mover.Mover
	// Find returns a peer that was added; ErrUnknownPeer or ErrClosed otherwise.
	Find func(nixl.PeerID) (Peer, error)
}

// Prepare is nixl.Agent's.
func (t *Transfers) Prepare(peer nixl.PeerID, id nixl.RegionID, runs []block.Span) (nixl.List, error) {
	side, p := "local", Peer{Regions: t.Regions.Seal()}
	if peer != t.Self {
		var err error
		if p, err = t.Find(peer); err != nil {
			return nil, fmt.Errorf("prepare runs of %s: %w", peer, err)
		}
		side = "remote"
	}
	r, err := region.Find(side, p.Regions, id)
	if err != nil {
		return nil, fmt.Errorf("prepare runs of %s: %w", peer, err)
	}
	l, err := list.New(peer, id, r.Info().Bytes(), runs, p.Gate)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Make is nixl.Agent's.
func (t *Transfers) Make(p nixl.Prepared) (nixl.Transfer, error) {
	local, remote, err := list.Sides(t.Self, p)
	if err != nil {
		return nil, err
	}
	peer, err := t.Find(remote.Peer)
	if err == nil && remote.Bound != peer.Gate {
		err = fmt.Errorf("its runs were prepared for an earlier connection: %w", nixl.ErrUnknownPeer)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", p.Op, remote.Peer, err)
	}
	runs, err := list.Pair(p.Op, local, remote, p.LocalRuns, p.RemoteRuns)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", p.Op, remote.Peer, err)
	}
	return t.transfer(peer, p.Op, p.Grant, local.Region, remote.Region, runs)
}

// Create is nixl.Agent's.
func (t *Transfers) Create(r nixl.Request) (nixl.Transfer, error) {
	peer, err := t.Find(r.Peer)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Op, r.Peer, err)
	}
	local, err := region.Find("local", t.Regions.Seal(), r.Local)
	remote, remoteErr := region.Find("remote", peer.Regions, r.Remote)
	if err = errors.Join(err, remoteErr); err == nil {
		err = nixl.CheckCopies(r.Op, r.Copies, local.Info().Bytes(), remote.Info().Bytes())
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Op, r.Peer, err)
	}
	return t.transfer(peer, r.Op, r.Grant, r.Local, r.Remote, list.Of(r.Copies))
}

// transfer checks the grant and binds the transfer to its gates.
func (t *Transfers) transfer(peer Peer, op nixl.Op, g *nixl.Grant, local, remote nixl.RegionID, runs list.Runs) (nixl.Transfer, error) {
	gates, err := peer.gates(t.Self, op, remote, g, &runs)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", op, peer.ID, err)
	}
	return t.Mover.New(mover.Spec{
		Peer: peer.ID, Op: op, Runs: runs, Local: t.Regions.Seal()[local], Remote: peer.Regions[remote], Gates: gates,
	}), nil
}

func (p Peer) gates(self nixl.PeerID, op nixl.Op, remote nixl.RegionID, g *nixl.Grant, runs *list.Runs) ([]*gate.Gate, error) {
	if err := p.Gate.Err(); err != nil {
		return nil, err
	}
	if p.Grants == nil {
		return []*gate.Gate{p.Gate}, nil
	}
	granted, err := p.Grants.Find(self, op, remote, g)
	if err != nil {
		return nil, err
	}
	for i := range runs.Len() {
		if err := granted.Covers(runs.At(i).Remote); err != nil {
			return nil, err
		}
	}
	return []*gate.Gate{p.Gate, &granted.Gate}, nil
}
