package prefix

// ages orders the runs by when they were last looked up or stored, a heap with the oldest first. Lookups only mark
// the run, so what the heap has for it may be too old; that is put right when it comes first.
type ages []aged

// moment is from one lookup or change to the next; between them is room for as many runs of one chain.
const moment = 1 << 16

type aged struct {
	used uint64
	id   runID
}

const agedBytes = 16

func (a *ages) push(x *Index, id runID, r *run) {
	*a = append(*a, aged{r.used.Load(), id})
	a.up(x, len(*a)-1)
}

func (a *ages) remove(x *Index, r *run) {
	i, last := int(r.age), len(*a)-1
	moved := (*a)[last]
	*a = (*a)[:last]
	if i == last {
		return
	}
	(*a)[i] = moved
	a.up(x, i)
	a.down(x, int(x.pages.at(moved.id).age))
}

func (a ages) up(x *Index, i int) {
	e := a[i]
	for i > 0 {
		parent := (i - 1) / 2
		if a[parent].used <= e.used {
			break
		}
		a.set(x, i, a[parent])
		i = parent
	}
	a.set(x, i, e)
}

func (a ages) down(x *Index, i int) {
	e := a[i]
	for {
		child := 2*i + 1
		if child >= len(a) {
			break
		}
		if child+1 < len(a) && a[child+1].used < a[child].used {
			child++
		}
		if e.used <= a[child].used {
			break
		}
		a.set(x, i, a[child])
		i = child
	}
	a.set(x, i, e)
}

func (a ages) set(x *Index, i int, e aged) {
	a[i] = e
	x.pages.at(e.id).age = int32(i)
}

// later says again when the first was used.
func (a ages) later(x *Index, used uint64) {
	a[0].used = used
	a.down(x, 0)
}
