// Package grants keeps which peer may touch which blocks, for the transports whose
// receiving side can refuse. It starts no goroutine.
package grants

import (
	"context"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
)

// Table is ready as its zero value. Its methods may be called concurrently.
type Table struct {
	mu     sync.Mutex
	grants map[nixl.PeerID]map[key]*Entry
}

type key struct {
	number uint64
	op     nixl.Op
}

// Entry is a grant that is in force until its gate is shut.
type Entry struct {
	// Gate is entered by whoever moves bytes by the grant.
	Gate gate.Gate

	number      uint64
	region      nixl.RegionID
	blockBytes  int
	generations map[block.ID]block.Generation
}

// Allow puts a grant on blocks of a region in force.
func (t *Table) Allow(peer nixl.PeerID, g nixl.Grant, regions []nixl.RegionInfo) error {
	if g.Op != nixl.Write && g.Op != nixl.Read {
		return fmt.Errorf("grant %d: operation %d is neither write nor read: %w", g.Number, g.Op, nixl.ErrDescriptor)
	}
	if g.Region < 0 || int(g.Region) >= len(regions) {
		return fmt.Errorf("grant %d: no region %d among %d: %w", g.Number, g.Region, len(regions), nixl.ErrDescriptor)
	}
	info := regions[g.Region]
	e := &Entry{
		number: g.Number, region: g.Region, blockBytes: info.Layout.BlockBytes(),
		generations: make(map[block.ID]block.Generation, len(g.Blocks)),
	}
	for _, r := range g.Blocks {
		if r.ID < 0 || int(r.ID) >= info.Blocks {
			return fmt.Errorf("grant %d: no block %d among %d: %w", g.Number, r.ID, info.Blocks, nixl.ErrDescriptor)
		}
		e.generations[r.ID] = r.Generation
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.grants == nil {
		t.grants = make(map[nixl.PeerID]map[key]*Entry)
	}
	of := t.grants[peer]
	if of == nil {
		of = make(map[key]*Entry)
		t.grants[peer] = of
	}
	k := key{g.Number, g.Op}
	if of[k] != nil {
		return fmt.Errorf("grant %d to %s for %ss is in force already", g.Number, peer, g.Op)
	}
	of[k] = e
	return nil
}

// Find returns the grant in force that a request of peer names. Whatever the request's
// names of blocks and generations, they must be those that were granted.
func (t *Table) Find(peer nixl.PeerID, op nixl.Op, region nixl.RegionID, g *nixl.Grant) (*Entry, error) {
	if g == nil {
		return nil, fmt.Errorf("the request names no grant: %w", nixl.ErrNotGranted)
	}
	e := t.lookUp(peer, key{g.Number, op})
	switch {
	case e == nil:
		return nil, fmt.Errorf("no grant %d for %ss by %s is in force: %w", g.Number, op, peer, nixl.ErrNotGranted)
	case e.Gate.Err() != nil:
		return nil, e.Gate.Err()
	case e.region != region:
		return nil, fmt.Errorf("grant %d is for region %d, not %d: %w", g.Number, e.region, region, nixl.ErrNotGranted)
	}
	for _, r := range g.Blocks {
		if have, granted := e.generations[r.ID]; !granted || have != r.Generation {
			return nil, fmt.Errorf("grant %d: block %d of generation %d is not among its blocks: %w",
				g.Number, r.ID, r.Generation, nixl.ErrNotGranted)
		}
	}
	return e, nil
}

// Knows tells whether peer has a grant.
func (t *Table) Knows(peer nixl.PeerID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.grants[peer]) > 0
}

func (t *Table) lookUp(peer nixl.PeerID, k key) *Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.grants[peer][k]
}

// Covers reports, as ErrNotGranted, a run that touches a block that was not granted.
// The run must lie within the region.
func (e *Entry) Covers(run block.Span) error {
	if run.Bytes == 0 {
		return nil
	}
	first, last := run.Offset/e.blockBytes, (run.Offset+run.Bytes-1)/e.blockBytes
	for b := first; b <= last; b++ {
		if _, granted := e.generations[block.ID(b)]; !granted {
			return fmt.Errorf("grant %d: offset %d, %d bytes, touches block %d: %w", e.number, run.Offset, run.Bytes, b, nixl.ErrNotGranted)
		}
	}
	return nil
}

// Has reports, as ErrNotGranted, a block that was not granted or, if the generation is
// named, not in that one.
func (e *Entry) Has(r block.Ref, named bool) error {
	have, granted := e.generations[r.ID]
	if !granted || named && have != r.Generation {
		return fmt.Errorf("grant %d: block %d of generation %d is not among its blocks: %w", e.number, r.ID, r.Generation, nixl.ErrNotGranted)
	}
	return nil
}

// Revoke ends the grants of a number and waits, while ctx lasts, until nobody moves
// bytes by them.
func (t *Table) Revoke(ctx context.Context, peer nixl.PeerID, number uint64) error {
	keys := []key{{number, nixl.Write}, {number, nixl.Read}}
	var shut []*Entry
	for _, k := range keys {
		e := t.lookUp(peer, k)
		if e != nil {
			e.Gate.Shut(fmt.Errorf("grant %d was revoked: %w", number, nixl.ErrNotGranted))
		}
		shut = append(shut, e)
	}
	for _, e := range shut {
		if e == nil {
			continue
		}
		if err := gate.Wait(ctx, e.Gate.Shut(nil)); err != nil { // it is shut
			return fmt.Errorf("revoke grant %d of %s: %w: bytes are on their way (%w)", number, peer, nixl.ErrStillAlive, err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, k := range keys {
		if shut[i] != nil && t.grants[peer][k] == shut[i] { // else it is a later grant of the number
			delete(t.grants[peer], k)
		}
	}
	t.prune(peer)
	return nil
}

func (t *Table) prune(peer nixl.PeerID) {
	if len(t.grants[peer]) == 0 {
		delete(t.grants, peer)
	}
}

// Forget ends all grants of a peer that was fenced. One by which bytes are still moved is
// kept, so that a Revoke does not take its absence for the proof.
func (t *Table) Forget(peer nixl.PeerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, e := range t.grants[peer] {
		select {
		case <-e.Gate.Shut(nixl.ErrFenced):
			delete(t.grants[peer], k)
		default:
		}
	}
	t.prune(peer)
}
