//go:build cgo && linux

package capi

import (
	"errors"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi/internal/native"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/list"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
)

// prepared is one side of transfers. NIXL knows its runs that are not empty.
type prepared struct {
	*list.List
	agent  *agent
	link   *link // nil on the own side
	within *handles

	once    sync.Once
	native  native.List
	numbers []int32 // of the runs at NIXL, -1 for an empty one; nil when none is empty
	run     int     // bytes of each run; -1 when they differ
}

// Prepare is nixl.Agent's.
func (a *agent) Prepare(id nixl.PeerID, r nixl.RegionID, runs []block.Span) (nixl.List, error) {
	l, err := a.prepare(id, r, runs)
	if err != nil {
		return nil, fmt.Errorf("prepare runs of %s: %w", id, err)
	}
	return l, nil
}

func (a *agent) prepare(id nixl.PeerID, r nixl.RegionID, runs []block.Span) (*prepared, error) {
	p, at, err := a.side(id, r, runs)
	if err != nil {
		return nil, err
	}
	some := p.number(runs)
	if len(some) == 0 {
		return p, nil
	}
	name := ""
	if p.link != nil {
		name = p.link.peer.name
	}
	a.calls.RLock()
	defer a.calls.RUnlock()
	if a.destroyed {
		return nil, nixl.ErrClosed
	}
	if p.native, err = a.native.Prepare(name, at, some); err != nil {
		return nil, err
	}
	if !p.within.add(p) {
		return nil, errors.Join(fmt.Errorf("its connection has ended: %w", nixl.ErrUnknownPeer), a.native.ReleaseList(p.native))
	}
	return p, nil
}

// side finds the region and checks the runs.
func (a *agent) side(id nixl.PeerID, r nixl.RegionID, runs []block.Span) (*prepared, native.Region, error) {
	p := &prepared{agent: a, within: &a.own}
	if id == a.ID() {
		own, err := region.Find("local", a.regions.Seal(), r)
		if err != nil {
			return nil, native.Region{}, err
		}
		p.List, err = list.New(id, r, own.Info().Bytes(), runs, nil)
		return p, placeOf(own), err
	}
	l, err := a.find(id)
	if err != nil {
		return nil, native.Region{}, err
	}
	info, err := l.region(r)
	if err != nil {
		return nil, native.Region{}, err
	}
	p.link, p.within = l, &l.handles
	p.List, err = list.New(id, r, info.Bytes(), runs, &l.gate)
	return p, l.places[r], err
}

// region is one of the peer's.
func (l *link) region(id nixl.RegionID) (nixl.RegionInfo, error) {
	if id < 0 || int(id) >= len(l.infos) {
		return nixl.RegionInfo{}, fmt.Errorf("no remote region %d among %d: %w", id, len(l.infos), nixl.ErrDescriptor)
	}
	return l.infos[id], nil
}

// number returns the runs for NIXL, and notes their numbers there.
func (p *prepared) number(runs []block.Span) []block.Span {
	some := make([]block.Span, 0, len(runs))
	numbers := make([]int32, len(runs))
	for i, r := range runs {
		if i == 0 {
			p.run = r.Bytes
		} else if r.Bytes != p.run {
			p.run = -1
		}
		numbers[i] = -1
		if r.Bytes > 0 {
			numbers[i] = int32(len(some))
			some = append(some, r)
		}
	}
	if len(some) < len(runs) {
		p.numbers = numbers
	}
	return some
}

// at translates indices into numbers at NIXL, without the empty runs.
func (p *prepared) at(indices []int32) []int32 {
	if p.numbers == nil {
		return indices
	}
	out := make([]int32, 0, len(indices))
	for _, i := range indices {
		if p.numbers[i] >= 0 {
			out = append(out, p.numbers[i])
		}
	}
	return out
}

// Release is nixl.List's.
func (p *prepared) Release() {
	p.drop()
	p.within.remove(p)
}

func (p *prepared) drop() {
	p.once.Do(func() {
		p.agent.calls.RLock()
		defer p.agent.calls.RUnlock()
		if p.agent.destroyed {
			return
		}
		if err := p.agent.native.ReleaseList(p.native); err != nil { // it stays NIXL's until the agent's end
			p.agent.config.Logger.Warn("nixl list not released", "transport", transport, "error", err)
		}
	})
}

// Make is nixl.Agent's.
func (a *agent) Make(p nixl.Prepared) (nixl.Transfer, error) {
	local, mine := p.Local.(*prepared)
	remote, theirs := p.Remote.(*prepared)
	if !mine || !theirs || local.agent != a || remote.agent != a || local.link != nil || remote.link == nil {
		return nil, fmt.Errorf("make: want a list of this agent's own runs and one of a peer's: %w", nixl.ErrDescriptor)
	}
	t, err := a.pair(p, local, remote)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", p.Op, remote.Peer, err)
	}
	return t, nil
}

func (a *agent) pair(p nixl.Prepared, local, remote *prepared) (*transfer, error) {
	l, err := a.find(remote.Peer)
	if err == nil && l != remote.link {
		err = fmt.Errorf("its runs were prepared for an earlier connection: %w", nixl.ErrUnknownPeer)
	}
	if err != nil {
		return nil, err
	}
	runs, err := list.Pair(p.Op, local.List, remote.List, p.LocalRuns, p.RemoteRuns)
	if err != nil {
		return nil, err
	}
	t := &transfer{agent: a, link: l, op: p.Op, local: a.regions.Seal()[local.Region]}
	if local.run >= 0 {
		t.bytes = uint64(local.run) * uint64(runs.Len())
	} else {
		for i := range runs.Len() {
			t.bytes += uint64(runs.At(i).Local.Bytes)
		}
	}
	t.empty = t.bytes == 0
	return t, a.obtain(t, func() (native.Request, error) {
		return a.native.Make(p.Op, local.native, local.at(p.LocalRuns), remote.native, remote.at(p.RemoteRuns))
	})
}

// Create is nixl.Agent's.
func (a *agent) Create(r nixl.Request) (nixl.Transfer, error) {
	t, err := a.create(r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Op, r.Peer, err)
	}
	return t, nil
}

func (a *agent) create(r nixl.Request) (*transfer, error) {
	l, err := a.find(r.Peer)
	if err != nil {
		return nil, err
	}
	local, err := region.Find("local", a.regions.Seal(), r.Local)
	remote, remoteErr := l.region(r.Remote)
	if err = errors.Join(err, remoteErr); err == nil {
		err = nixl.CheckCopies(r.Op, r.Copies, local.Info().Bytes(), remote.Bytes())
	}
	if err != nil {
		return nil, err
	}
	t := &transfer{agent: a, link: l, op: r.Op, local: local}
	for _, c := range r.Copies {
		t.bytes += uint64(c.Local.Bytes)
	}
	t.empty = t.bytes == 0
	return t, a.obtain(t, func() (native.Request, error) {
		return a.native.Create(r.Op, l.peer.name, placeOf(local), l.places[r.Remote], r.Copies)
	})
}

// obtain makes the request of a transfer that is not empty.
func (a *agent) obtain(t *transfer, request func() (native.Request, error)) error {
	if t.empty {
		return t.link.gate.Err()
	}
	a.calls.RLock()
	defer a.calls.RUnlock()
	if a.destroyed {
		return nixl.ErrClosed
	}
	if err := errors.Join(t.link.gate.Err(), t.local.Gate.Err()); err != nil {
		return err
	}
	r, err := request()
	if err != nil {
		return err
	}
	t.request, t.held = r, true // nobody else has it yet
	if !t.link.handles.add(t) {
		return errors.Join(t.link.gate.Err(), a.native.Release(r))
	}
	return nil
}
