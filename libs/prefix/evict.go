package prefix

import "unsafe"

const (
	runBytes    = int(unsafe.Sizeof(run{}))
	holderBytes = int(unsafe.Sizeof(holder{}))
	idBytes     = int(unsafe.Sizeof(runID(0)))
	// placeBytes is what a block takes in the table when that is at its emptiest.
	placeBytes = bucketBytes * 5 / (bucketPlaces * 2)
	// repeatBytes is about what an entry of a map takes.
	repeatBytes = 40
)

// needed is what the entries take, of the byte budget.
func (x *Index) needed() int {
	return x.pages.runs*(runBytes+agedBytes+2*idBytes) + x.table.blocks*placeBytes + x.lists.bytes() + x.repeated*repeatBytes
}

// evict keeps the byte budget: what was looked up or stored longest ago goes.
func (x *Index) evict() {
	for (x.needed() > x.budget || x.pages.runs > maxRuns/2) && len(x.ages) > 0 {
		x.evictOldest()
	}
}

// evictOldest takes the oldest run from all its holders. A run counts as used no earlier than the one that follows
// it: without its beginning a chain is of no use.
func (x *Index) evictOldest() {
	const patience = 256 // hints may lead in circles
	for range patience {
		id := x.ages[0].id
		r := x.pages.at(id)
		used := r.used.Load()
		if next := x.pages.at(r.next); next.n > 0 && next.prev == id && next.used.Load() >= used {
			used = next.used.Load() + 1
			r.used.Store(used)
		}
		if used == x.ages[0].used {
			break
		}
		x.ages.later(x, used)
	}
	id := x.ages[0].id
	r := x.pages.at(id)
	for r.held > 0 {
		h := x.holders(r)[r.held-1]
		x.loseRepeats(r, h.lane, h.bits)
		x.counts.Evictions += uint64(x.forget(r, h.lane))
	}
	x.trim(id, r)
}
