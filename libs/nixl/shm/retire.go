//go:build linux

package shm

import (
	"context"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

var _ nixl.Retirer = (*agent)(nil)

// Retire is nixl.Retirer's. The old files live on with those who have mapped them, which
// costs as much memory as was replaced until they end or unmap it.
func (a *agent) Retire(ctx context.Context, peer nixl.PeerID, id nixl.RegionID, blocks []block.ID, still nixl.Still) error {
	r, err := region.Find("local", a.regions.Seal(), id)
	if err != nil {
		return fmt.Errorf("retire blocks from %s: %w", peer, err)
	}
	touched := ranges(r.Layout().BlockBytes(), blocks)
	moving := within(r, r.Memory().Segments(touched))
	err = still(ctx, moving, func(keep func(block.ID) bool) error {
		kept := make([]block.ID, 0, len(moving))
		for _, b := range moving {
			if keep(b) {
				kept = append(kept, b)
			}
		}
		return r.Memory().Retire(touched, ranges(r.Layout().BlockBytes(), kept))
	})
	if err != nil {
		return fmt.Errorf("retire blocks from %s: %w: %w", peer, nixl.ErrStillAlive, err)
	}
	a.config.Logger.WarnContext(ctx, "nixl memory retired", "transport", transport, "peer", peer.String(), "blocks", len(moving))
	a.expel(peer)
	return nil
}

func ranges(blockBytes int, blocks []block.ID) []memory.Range {
	all := make([]memory.Range, len(blocks))
	for i, b := range blocks {
		all[i] = memory.Range{Offset: int(b) * blockBytes, Bytes: blockBytes}
	}
	return all
}

// within are the blocks of a region of which some byte lies in the segments.
func within(r *region.Region, segments []memory.Range) (blocks []block.ID) {
	size, next := r.Layout().BlockBytes(), 0
	for _, s := range segments {
		first, last := s.Offset/size, (s.Offset+s.Bytes-1)/size
		for b := max(first, next); b <= last && b < r.Blocks(); b++ {
			blocks = append(blocks, block.ID(b))
		}
		next = max(next, last+1)
	}
	return blocks
}

// expel refuses the peer for good, and ends the connections of all who have mapped the
// memory as it was: they write into blocks again only when they have mapped what is there now.
func (a *agent) expel(peer nixl.PeerID) {
	a.mu.Lock()
	a.fenced[peer] = true
	var left []*conn
	for _, c := range a.in {
		left = append(left, c)
	}
	w := a.writers[peer]
	a.mu.Unlock()
	for _, c := range left {
		c.abandon()
	}
	if w != nil {
		a.prove(peer, w)
	}
}
