// Package list holds prepared lists of runs, and pairs them for transfers. It starts
// no goroutine.
package list

import (
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
)

// List is one side of transfers.
type List struct {
	// Peer owns the region.
	Peer   nixl.PeerID
	Region nixl.RegionID
	// Bound is the gate of the connection that the list ends with; nil on the own side.
	Bound *gate.Gate

	spans    []block.Span
	disjoint bool // no two runs share a byte

	mu    sync.Mutex
	round uint32   // of duplicates
	marks []uint32 // round in which a run was last named
}

var _ nixl.List = (*List)(nil)

// New checks runs of a region of size bytes and keeps them.
func New(peer nixl.PeerID, region nixl.RegionID, size int, runs []block.Span, bound *gate.Gate) (*List, error) {
	l := &List{Peer: peer, Region: region, Bound: bound, spans: append([]block.Span(nil), runs...)}
	copies := make([]nixl.Copy, len(runs))
	for i, r := range runs {
		copies[i] = nixl.Copy{Local: block.Span{Bytes: r.Bytes}, Remote: r}
	}
	if err := nixl.CheckBounds(copies, int(^uint(0)>>1), size); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	l.disjoint = nixl.CheckOverlap(nixl.Write, copies) == nil
	return l, nil
}

// Sides are the two lists of a prepared transfer of the agent self.
func Sides(self nixl.PeerID, p nixl.Prepared) (local, remote *List, err error) {
	local, mine := p.Local.(*List)
	remote, theirs := p.Remote.(*List)
	if !mine || !theirs || local.Peer != self || remote.Peer == self {
		return nil, nil, fmt.Errorf("make: want a list of this agent's own runs and one of a peer's: %w", nixl.ErrDescriptor)
	}
	return local, remote, nil
}

// Len is the number of runs.
func (l *List) Len() int { return len(l.spans) }

// Release has nothing to free.
func (l *List) Release() {}

// Runs are the copies of a transfer: given as such, or by indices into two lists.
type Runs struct {
	copies        []nixl.Copy
	local, remote []block.Span
	li, ri        []int32
}

// Of keeps a copy of copies, which the caller has checked.
func Of(copies []nixl.Copy) Runs { return Runs{copies: append([]nixl.Copy(nil), copies...)} }

// Len is the number of copies.
func (r *Runs) Len() int { return max(len(r.copies), len(r.li)) }

// At is the i-th copy.
func (r *Runs) At(i int) nixl.Copy {
	if r.copies != nil {
		return r.copies[i]
	}
	return nixl.Copy{Local: r.local[r.li[i]], Remote: r.remote[r.ri[i]]}
}

// Pair checks the indices of a prepared transfer. Its cost is linear, without an
// allocation per run, when the runs of the list that is written are disjoint.
func Pair(op nixl.Op, local, remote *List, li, ri []int32) (Runs, error) {
	if op != nixl.Write && op != nixl.Read {
		return Runs{}, fmt.Errorf("operation %d is neither write nor read: %w", op, nixl.ErrDescriptor)
	}
	if len(li) != len(ri) {
		return Runs{}, fmt.Errorf("%d local runs but %d remote: %w", len(li), len(ri), nixl.ErrDescriptor)
	}
	r := Runs{local: local.spans, remote: remote.spans, li: li, ri: ri}
	for i := range li {
		a, b := li[i], ri[i]
		if uint(a) >= uint(len(local.spans)) || uint(b) >= uint(len(remote.spans)) {
			return Runs{}, fmt.Errorf("pair %d: run %d of %d local, run %d of %d remote: %w",
				i, a, len(local.spans), b, len(remote.spans), nixl.ErrDescriptor)
		}
		if local.spans[a].Bytes != remote.spans[b].Bytes {
			return Runs{}, fmt.Errorf("pair %d: %d bytes local but %d remote: %w",
				i, local.spans[a].Bytes, remote.spans[b].Bytes, nixl.ErrDescriptor)
		}
	}
	written, named := remote, ri
	if op == nixl.Read {
		written, named = local, li
	}
	return r, written.checkDistinct(op, named, &r)
}

// checkDistinct makes sure that no byte is written twice.
func (l *List) checkDistinct(op nixl.Op, named []int32, r *Runs) error {
	if !l.disjoint {
		copies := make([]nixl.Copy, len(named))
		for i := range copies {
			copies[i] = r.At(i)
		}
		return nixl.CheckOverlap(op, copies)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marks == nil {
		l.marks = make([]uint32, len(l.spans))
	}
	if l.round++; l.round == 0 { // wrapped around
		clear(l.marks)
		l.round = 1
	}
	for _, n := range named {
		if l.marks[n] == l.round && l.spans[n].Bytes > 0 {
			return fmt.Errorf("run %d is written twice: %w", n, nixl.ErrDescriptor)
		}
		l.marks[n] = l.round
	}
	return nil
}
