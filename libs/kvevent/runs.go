package kvevent

import (
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// tierOnWire maps tiers to the contract's.
var tierOnWire = [block.Tiers]kveventv1.Tier{
	block.Device: kveventv1.Tier_TIER_UNSPECIFIED,
	block.Host:   kveventv1.Tier_TIER_HOST,
	block.Disk:   kveventv1.Tier_TIER_DISK,
}

// encode appends changes to runs, whose columns are complete afterwards.
func encode(r *kveventv1.Runs, changes []block.Change) {
	var open bool // the last run can take a further block
	var last block.Change
	lower := false
	for _, c := range changes {
		joins := open && c.Kind == last.Kind && c.Tier == last.Tier && (c.Kind == block.Removed || c.Parent == last.Hash)
		if joins {
			r.Blocks[len(r.Blocks)-1]++
		} else {
			open = true
			kind := kveventv1.Kind_KIND_REMOVED
			if c.Kind == block.Stored {
				kind = kveventv1.Kind_KIND_STORED
				r.Parents = append(r.Parents, uint64(c.Parent))
			}
			lower = lower || c.Tier != block.Device
			r.Kinds, r.Tiers, r.Blocks = append(r.Kinds, kind), append(r.Tiers, tierOnWire[c.Tier]), append(r.Blocks, 1)
		}
		r.Hashes = append(r.Hashes, uint64(c.Hash))
		last = c
	}
	if !lower {
		r.Tiers = r.Tiers[:0]
	}
}

// clearRuns empties the columns and keeps their room.
func clearRuns(r *kveventv1.Runs) {
	r.Kinds, r.Tiers, r.Blocks, r.Parents, r.Hashes = r.Kinds[:0], r.Tiers[:0], r.Blocks[:0], r.Parents[:0], r.Hashes[:0]
}

// span is events in the order of their numbers.
type span struct {
	first uint64 // number of the first
	end   uint64 // number after the last
	runs  []run
	// attempt is, in a stream's buffer, the request for a snapshot that was made last before these came.
	attempt uint64
}

// run is events of one kind and tier. A cleared one has no hashes, and is one event.
type run struct {
	kind   kveventv1.Kind
	tier   block.Tier
	parent block.Hash
	hashes []block.Hash
}

func (r *run) events() uint64 { return max(1, uint64(len(r.hashes))) }

// decode takes the columns apart. It fails where they do not fit together; what it returns grows
// with the message, whatever that claims.
func decode(first uint64, r *kveventv1.Runs) (span, error) {
	kinds, tiers, blocks := r.GetKinds(), r.GetTiers(), r.GetBlocks()
	switch {
	case len(blocks) != len(kinds):
		return span{}, fmt.Errorf("runs.blocks has %d entries, want one for each of %d kinds", len(blocks), len(kinds))
	case len(tiers) != 0 && len(tiers) != len(kinds):
		return span{}, fmt.Errorf("runs.tiers has %d entries, want none or one for each of %d kinds", len(tiers), len(kinds))
	case first == 0:
		return span{}, fmt.Errorf("first_sequence is 0, want at least 1")
	}
	hashes, parents := make([]block.Hash, len(r.GetHashes())), r.GetParents()
	for i, h := range r.GetHashes() {
		hashes[i] = block.Hash(h)
	}
	s := span{first: first, end: first, runs: make([]run, 0, len(kinds))}
	for i, kind := range kinds {
		x := run{kind: kind}
		if len(tiers) > 0 {
			if tiers[i] < 0 || int(tiers[i]) >= len(tierOnWire) {
				return span{}, fmt.Errorf("runs.tiers[%d] is %d, want one of %v", i, tiers[i], tierOnWire)
			}
			x.tier = block.Tier(tiers[i])
		}
		n := int(blocks[i])
		switch {
		case n > len(hashes):
			return span{}, fmt.Errorf("runs.blocks[%d] is %d, want at most the %d hashes left", i, n, len(hashes))
		case kind == kveventv1.Kind_KIND_CLEARED && n != 0:
			return span{}, fmt.Errorf("runs.blocks[%d] is %d, want 0 for a cleared run", i, n)
		case kind != kveventv1.Kind_KIND_CLEARED && n == 0:
			return span{}, fmt.Errorf("runs.blocks[%d] is 0, want at least 1", i)
		}
		switch kind {
		case kveventv1.Kind_KIND_STORED:
			if len(parents) == 0 {
				return span{}, fmt.Errorf("runs.parents is too short, want one for each stored run")
			}
			x.parent, parents = block.Hash(parents[0]), parents[1:]
		case kveventv1.Kind_KIND_REMOVED, kveventv1.Kind_KIND_CLEARED:
		default:
			return span{}, fmt.Errorf("runs.kinds[%d] is %d, want stored, removed or cleared", i, kind)
		}
		x.hashes, hashes = hashes[:n:n], hashes[n:]
		s.end += x.events()
		s.runs = append(s.runs, x)
	}
	if len(hashes) > 0 || len(parents) > 0 {
		return span{}, fmt.Errorf("runs has %d hashes and %d parents of no run", len(hashes), len(parents))
	}
	if s.end < first {
		return span{}, fmt.Errorf("first_sequence is %d, want one with room for %d more", first, len(r.GetHashes()))
	}
	return s, nil
}

// apply passes the events from number from on to a sink.
func (s *span) apply(to Sink, of Source, from uint64) {
	at := s.first
	for i := range s.runs {
		r := &s.runs[i]
		next := at + r.events()
		if next > from {
			r.apply(to, of, int(max(from, at)-at))
		}
		at = next
	}
}

// apply leaves out the run's first events.
func (r *run) apply(to Sink, of Source, skip int) {
	switch r.kind {
	case kveventv1.Kind_KIND_STORED:
		parent := r.parent
		if skip > 0 {
			parent = r.hashes[skip-1]
		}
		to.Stored(of, r.tier, parent, r.hashes[skip:])
	case kveventv1.Kind_KIND_REMOVED:
		to.Removed(of, r.tier, r.hashes[skip:])
	default:
		to.Reset(of)
	}
}
