package prefix

import "math/bits"

// holders are those of the run, sorted by lane.
func (x *Index) holders(r *run) []holder {
	if r.class == 0 {
		return r.near[:r.held]
	}
	return x.lists.at(r.class, r.list)[:r.held]
}

// holderOf is where the lane is among the holders, or where it would be.
func (x *Index) holderOf(hs []holder, l lane) (int, bool) {
	from, n := 0, len(hs)
	for n > 4 {
		half := n / 2
		if hs[from+half].lane <= l {
			from += half
		}
		n -= half
	}
	for ; from < len(hs) && hs[from].lane < l; from++ {
	}
	return from, from < len(hs) && hs[from].lane == l
}

// hold gives the lane blocks of the run, those it has already once more.
func (x *Index) hold(id runID, r *run, l lane, mask uint64) {
	hs := x.holders(r)
	i, ok := x.holderOf(hs, l)
	if !ok {
		x.insert(id, r, i, holder{lane: l, bits: mask})
		x.counts.Entries += bits.OnesCount64(mask)
		return
	}
	h := &hs[i]
	if again := h.bits & mask; again != 0 {
		x.repeat(r, l, again)
	}
	x.counts.Entries += bits.OnesCount64(mask &^ h.bits)
	x.change(r, h, h.bits|mask)
}

// release takes one reference of blocks of the run from the lane and forgets blocks that nobody has any more.
func (x *Index) release(id runID, r *run, l lane, mask uint64) {
	hs := x.holders(r)
	i, ok := x.holderOf(hs, l)
	if !ok {
		x.counts.IgnoredRemoves += uint64(bits.OnesCount64(mask))
		return
	}
	h := &hs[i]
	x.counts.IgnoredRemoves += uint64(bits.OnesCount64(mask &^ h.bits))
	mask = x.unrepeat(r, l, mask&h.bits)
	if mask == 0 {
		return
	}
	x.counts.Entries -= bits.OnesCount64(mask)
	if h.bits == mask {
		x.uninsert(r, i)
	} else {
		x.change(r, h, h.bits&^mask)
	}
	x.trim(id, r)
}

// change sets what a holder has, not nothing.
func (x *Index) change(r *run, h *holder, word uint64) {
	was, is := r.isFull(h), false
	h.bits = word
	if is = r.isFull(h); was == is {
		return
	}
	if is {
		r.full++
	} else {
		r.full--
	}
	x.markFull(r, h.lane.slot(), is)
}

// isFull says whether a holder has the whole run on the device.
func (r *run) isFull(h *holder) bool { return h.lane.tier() == Device && h.bits == r.everything() }

// insert adds a holder at its place in the order.
func (x *Index) insert(id runID, r *run, i int, h holder) {
	if int(r.held) == listCapacity(r.class) {
		x.resizeList(r, r.class+1)
	}
	r.held++
	hs := x.holders(r)
	copy(hs[i+1:], hs[i:])
	own := x.laneState(h.lane)
	h.back = int32(len(own.runs))
	own.runs = append(own.runs, id)
	hs[i] = h
	if h.lane.tier() != Device {
		r.lower++
	}
	if r.isFull(&h) {
		r.full++
		x.markFull(r, h.lane.slot(), true)
	}
	if r.held == denseFrom && r.dense == 0 {
		x.makeDense(r)
	}
}

// uninsert removes a holder, not its blocks.
func (x *Index) uninsert(r *run, i int) {
	hs := x.holders(r)
	h := hs[i]
	if r.isFull(&h) {
		r.full--
		x.markFull(r, h.lane.slot(), false)
	}
	if h.lane.tier() != Device {
		r.lower--
	}
	copy(hs[i:], hs[i+1:])
	r.held--
	if r.class > 0 && int(r.held) <= listCapacity(r.class-1)/2 {
		x.resizeList(r, r.class-1)
	}
	if r.dense != 0 && r.held < denseBelow {
		x.endDense(r)
	}
	x.unlist(h)
}

// unlist takes the run of a holder that is gone off its lane's list: the last one of the list takes its place.
func (x *Index) unlist(h holder) {
	own := x.laneState(h.lane)
	n := len(own.runs) - 1
	last := own.runs[n]
	own.runs = own.runs[:n]
	if int(h.back) == n {
		return
	}
	own.runs[h.back] = last
	hs := x.holders(x.pages.at(last))
	i, _ := x.holderOf(hs, h.lane)
	hs[i].back = h.back
}

// resizeList gives the run's holders a list of another class.
func (x *Index) resizeList(r *run, class uint8) {
	old, oldClass, oldList := x.holders(r), r.class, r.list
	r.class = class
	if class > 0 {
		r.list = x.lists.take(class)
	}
	copy(x.holders(r), old)
	if oldClass > 0 {
		x.lists.give(oldClass, oldList)
	}
}

// recount finds again which holders are full after the run has become shorter or longer.
func (x *Index) recount(r *run) {
	r.full, r.lower = 0, 0
	dense := r.dense != 0
	if dense {
		clear(x.dense[r.dense])
	}
	hs := x.holders(r)
	for i := range hs {
		if hs[i].lane.tier() != Device {
			r.lower++
		}
		if r.isFull(&hs[i]) {
			r.full++
			x.markFull(r, hs[i].lane.slot(), true)
		}
	}
}
