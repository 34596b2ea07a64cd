package prefix

import "unsafe"

// Stats are counts since the index was made, but for Slots, Entries, Blocks and Bytes, which are of now.
type Stats struct {
	Slots   int // that are given out
	Entries int // (block, slot, tier) that are held
	Blocks  int // that have a place: all that somebody holds, and holes among them
	Runs    int // in which they are
	Bytes   int // of memory that is allocated
	// Evictions counts the entries that went for the byte budget: what lookups may miss.
	Evictions uint64
	// Duplicates counts stored blocks that the slot had in that tier already: one more reference each.
	Duplicates uint64
	// IgnoredRemoves counts removed blocks that the slot did not have in that tier.
	IgnoredRemoves uint64
}

// Stats counts what the index has and did.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.counts
	s.Blocks = x.table.blocks
	s.Runs = x.pages.runs
	s.Bytes = x.bytes()
	return s
}

// bytes is the memory of all parts.
func (x *Index) bytes() int {
	const infoBytes = int(unsafe.Sizeof(pageInfo{})) + int(unsafe.Sizeof((*page)(nil)))
	n := x.pages.present*pageRuns*runBytes + len(x.pages.info)*infoBytes
	n += (len(x.table.now) + len(x.table.old) + len(x.table.spare)) * bucketBytes
	n += x.lists.bytes() + cap(x.ages)*agedBytes + x.repeated*repeatBytes
	for _, set := range x.dense {
		n += cap(set) * 8
	}
	for i := range x.slots {
		n += int(unsafe.Sizeof(slotState{}))
		for t := range x.slots[i].lanes {
			n += cap(x.slots[i].lanes[t].runs) * idBytes
		}
	}
	return n
}
