package prefix

// A run of a trunk, the beginning that all chats share, has hundreds of holders, and a lookup passes many such runs
// before chains part. Runs with many holders have a bit set of those that are full, so that a lookup takes 64 slots a
// step and looks at no holder that goes on.

const (
	denseFrom  = 12 // holders
	denseBelow = 6
)

// slotSet is a bit for each slot; what it is too short for is not in it.
type slotSet []uint64

func (x *Index) makeDense(r *run) {
	if n := len(x.freeDense); n > 0 {
		r.dense = x.freeDense[n-1]
		x.freeDense = x.freeDense[:n-1]
	} else {
		r.dense = uint32(len(x.dense))
		x.dense = append(x.dense, nil)
	}
	words := (len(x.slots) + 63) / 64
	if len(x.dense[r.dense]) < words {
		x.dense[r.dense] = make(slotSet, words)
	}
	x.recount(r)
}

func (x *Index) endDense(r *run) {
	x.freeDense = append(x.freeDense, r.dense)
	r.dense = 0
}

// markFull notes in the run's bit set, if it has one, that the slot is full or no longer.
func (x *Index) markFull(r *run, s Slot, full bool) {
	if r.dense == 0 {
		return
	}
	set := &x.dense[r.dense]
	for int(s)>>6 >= len(*set) {
		*set = append(*set, 0)
	}
	if full {
		(*set)[s>>6] |= 1 << (s & 63)
	} else {
		(*set)[s>>6] &^= 1 << (s & 63)
	}
}
