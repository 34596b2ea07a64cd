// Package mapped makes the transfers of agents that see their peers' memory in their
// own address space. It starts no goroutine.
package mapped

import (
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/grants"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/mover"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/request"
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

// New is the part of the agent self that makes transfers. find returns a peer that was
// added; ErrUnknownPeer or ErrClosed otherwise.
func New(self nixl.PeerID, regions *region.Table, m *mover.Mover, find func(nixl.PeerID) (Peer, error)) *request.Maker {
	return &request.Maker{Self: self, Regions: regions, Find: func(id nixl.PeerID) (request.Peer, error) {
		p, err := find(id)
		if err != nil {
			return request.Peer{}, err
		}
		return request.Peer{ID: p.ID, Gate: p.Gate, Regions: region.Infos(p.Regions), Carrier: carrier{self, m, p}}, nil
	}}
}

type carrier struct {
	self  nixl.PeerID
	mover *mover.Mover
	peer  Peer
}

// Transfer checks the grant and binds the transfer to its gates.
func (c carrier) Transfer(s request.Spec) (nixl.Transfer, error) {
	if has := c.peer.Regions[s.Remote].Epoch(); s.Grant != nil && has < s.Grant.Epoch {
		return nil, fmt.Errorf("%w: its memory has moved since it was mapped (epoch %d, the grant is of %d)", nixl.ErrGone, has, s.Grant.Epoch)
	}
	gates, err := c.gates(&s)
	if err != nil {
		return nil, err
	}
	return c.mover.New(mover.Spec{
		Peer: c.peer.ID, Op: s.Op, Runs: s.Runs, Local: s.Local, Remote: c.peer.Regions[s.Remote], Gates: gates,
	}), nil
}

func (c carrier) gates(s *request.Spec) ([]*gate.Gate, error) {
	if c.peer.Grants == nil {
		return []*gate.Gate{c.peer.Gate}, nil
	}
	granted, err := c.peer.Grants.Find(c.self, s.Op, s.Remote, s.Grant)
	if err != nil {
		return nil, err
	}
	for i := range s.Runs.Len() {
		if err := granted.Covers(s.Runs.At(i).Remote); err != nil {
			return nil, err
		}
	}
	return []*gate.Gate{c.peer.Gate, &granted.Gate}, nil
}
