package prefix

import (
	"errors"
	"fmt"
)

// Check says what of the index contradicts itself.
func (x *Index) Check() error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	runs, blocks, entries, lists := 0, 0, 0, 0
	for number, page := range x.pages.pages {
		for i := range page {
			r := &page[i]
			if r.n == 0 {
				continue
			}
			id := runID(number*pageRuns + i)
			runs++
			blocks += int(r.n)
			entries += x.checkRun(id, r, bad)
		}
	}
	if runs != x.pages.runs || runs != len(x.ages) || blocks != x.table.blocks || entries != x.counts.Entries {
		bad("%d runs, %d in pages, %d aged; %d blocks, %d in the table; %d entries, counted %d",
			runs, x.pages.runs, len(x.ages), blocks, x.table.blocks, entries, x.counts.Entries)
	}
	for s := range x.slots {
		for t := range Tier(Tiers) {
			own := x.laneState(laneOf(Slot(s), t))
			lists += len(own.runs)
			for k, id := range own.runs {
				hs := x.holders(x.pages.at(id))
				if i, ok := x.holderOf(hs, laneOf(Slot(s), t)); !ok || int(hs[i].back) != k {
					bad("slot %d, tier %d: run %d is listed at %d, not held from there", s, t, id, k)
				}
			}
		}
	}
	for i := range x.ages {
		if i > 0 && x.ages[(i-1)/2].used > x.ages[i].used {
			bad("the ages are out of order at %d", i)
		}
		if r := x.pages.at(x.ages[i].id); int(r.age) != i || r.used.Load() < x.ages[i].used {
			bad("run %d is aged at %d, not %d, or used too late", x.ages[i].id, r.age, i)
		}
	}
	x.table.checkPassed(bad)
	return errors.Join(errs...)
}

// checkPassed counts again how many blocks passed each bucket.
func (t *table) checkPassed(bad func(string, ...any)) {
	counts := make([]uint64, len(t.now))
	for i := range t.now {
		for slot, p := range t.now[i].places {
			if t.now[i].meta>>(8*slot)&0xff == 0 {
				continue
			}
			for b := t.now.home(scatter(t.hash(p))); b != i; b = (b + 1) % len(t.now) {
				counts[b]++
			}
		}
	}
	for i, want := range counts {
		if got := t.now[i].meta >> 48; got != want {
			bad("%d blocks passed bucket %d, counted %d", want, i, got)
		}
	}
}

// checkRun returns the entries of a run.
func (x *Index) checkRun(id runID, r *run, bad func(string, ...any)) (entries int) {
	for i, h := range r.hashes[:r.n] {
		if p, ok := x.table.find(h); !ok || p != placeOf(id, i) {
			bad("block %d of run %d is at %d (%v) in the table", i, id, p, ok)
		}
	}
	var full, lower uint32
	var live uint64
	for i, h := range x.holders(r) {
		if h.bits == 0 || h.bits&^r.everything() != 0 || i > 0 && x.holders(r)[i-1].lane >= h.lane {
			bad("holder %d of run %d has bits %x of %d blocks or is out of order", i, id, h.bits, r.n)
		}
		live |= h.bits
		for word := h.bits; word != 0; word &= word - 1 {
			entries++
		}
		is := r.isFull(&h)
		if is {
			full++
		}
		if h.lane.tier() != Device {
			lower++
		} else if r.dense != 0 && x.dense[r.dense].has(h.lane.slot()) != is {
			bad("run %d: slot %d is full: %v, its bit says else", id, h.lane.slot(), is)
		}
	}
	if live>>(r.n-1) != 1 || full != r.full || lower != r.lower {
		bad("run %d of %d blocks has %x alive, %d full, counted %d, %d lower, counted %d", id, r.n, live, full, r.full, lower, r.lower)
	}
	return entries
}

func (set slotSet) has(s Slot) bool { return int(s>>6) < len(set) && set[s>>6]>>(s&63)&1 == 1 }
