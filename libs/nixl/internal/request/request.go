// Package request checks what an agent is asked to move, before a transport makes a
// transfer of it. It starts no goroutine.
package request

import (
	"errors"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/list"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
)

// Peer is a connection with a peer that was added.
type Peer struct {
	ID nixl.PeerID
	// Gate is the connection's own, and tells it from earlier ones.
	Gate    *gate.Gate
	Regions []nixl.RegionInfo
	// Carrier makes the transfers of the connection.
	Carrier Carrier
}

// Spec is a request whose runs lie within both regions.
type Spec struct {
	Op     nixl.Op
	Grant  *nixl.Grant
	Local  *region.Region
	Remote nixl.RegionID
	Runs   list.Runs
}

// Carrier is a connection that carries transfers.
type Carrier interface {
	// Transfer makes one; ErrNotGranted when the owner would refuse it.
	Transfer(s Spec) (nixl.Transfer, error)
}

// Maker is the part of an agent that makes transfers. All fields are required.
type Maker struct {
	Self    nixl.PeerID
	Regions *region.Table
	// Find returns a peer that was added; ErrUnknownPeer or ErrClosed otherwise.
	Find func(nixl.PeerID) (Peer, error)
}

// Prepare is nixl.Agent's.
func (m *Maker) Prepare(peer nixl.PeerID, id nixl.RegionID, runs []block.Span) (nixl.List, error) {
	var (
		info  nixl.RegionInfo
		bound *gate.Gate
		err   error
	)
	if peer == m.Self {
		info, err = find("local", region.Infos(m.Regions.Seal()), id)
	} else {
		var p Peer
		if p, err = m.Find(peer); err == nil {
			bound = p.Gate
			info, err = find("remote", p.Regions, id)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("prepare runs of %s: %w", peer, err)
	}
	l, err := list.New(peer, id, info.Bytes(), runs, bound)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Make is nixl.Agent's.
func (m *Maker) Make(p nixl.Prepared) (nixl.Transfer, error) {
	local, remote, err := list.Sides(m.Self, p)
	if err != nil {
		return nil, err
	}
	peer, err := m.Find(remote.Peer)
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
	return m.transfer(peer, Spec{p.Op, p.Grant, m.Regions.Seal()[local.Region], remote.Region, runs})
}

// Create is nixl.Agent's.
func (m *Maker) Create(r nixl.Request) (nixl.Transfer, error) {
	peer, err := m.Find(r.Peer)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Op, r.Peer, err)
	}
	local, err := region.Find("local", m.Regions.Seal(), r.Local)
	remote, remoteErr := find("remote", peer.Regions, r.Remote)
	if err = errors.Join(err, remoteErr); err == nil {
		err = nixl.CheckCopies(r.Op, r.Copies, local.Info().Bytes(), remote.Bytes())
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Op, r.Peer, err)
	}
	return m.transfer(peer, Spec{r.Op, r.Grant, local, r.Remote, list.Of(r.Copies)})
}

func (m *Maker) transfer(peer Peer, s Spec) (nixl.Transfer, error) {
	if err := peer.Gate.Err(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.Op, peer.ID, err)
	}
	t, err := peer.Carrier.Transfer(s)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.Op, peer.ID, err)
	}
	return t, nil
}

func find(side string, regions []nixl.RegionInfo, id nixl.RegionID) (nixl.RegionInfo, error) {
	if id < 0 || int(id) >= len(regions) {
		return nixl.RegionInfo{}, fmt.Errorf("no %s region %d among %d: %w", side, id, len(regions), nixl.ErrDescriptor)
	}
	return regions[id], nil
}
