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
	// A step stores stepRuns at most, which tells how far off the next eviction is at least.
	left := max(0, x.budget-x.needed()) / (runBytes * stepRuns)
	x.slack = uint64(x.pages.runs+left) / 64 * moment
}

// evictOldest takes the oldest run from all its holders.
func (x *Index) evictOldest() {
	for {
		id := x.ages[0].id
		used := x.lift(id)
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

// lift makes a run and those that follow it used a little later than what follows them, and says when the run was
// used: without its beginning a chain is of no use, so it goes from its end.
func (x *Index) lift(first runID) uint64 {
	id := first
	for range moment / 2 {
		next, ok := x.following(id)
		if !ok {
			break
		}
		if next == first { // hints may lead in circles, and then nothing is the beginning
			return x.pages.at(first).used.Load()
		}
		id = next
	}
	for ; id != first; id = x.pages.at(id).prev {
		prev := x.pages.at(x.pages.at(id).prev)
		if used := x.pages.at(id).used.Load(); prev.used.Load() <= used {
			prev.used.Store(used + 1)
		}
	}
	return x.pages.at(first).used.Load()
}

// following is the run that follows one, if both say so.
func (x *Index) following(id runID) (runID, bool) {
	r := x.pages.at(id)
	next := x.pages.at(r.next)
	return r.next, next.n > 0 && next.prev == id
}
