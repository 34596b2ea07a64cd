package prefix

import "math/bits"

const (
	pageShift = 4
	// pageRuns is how many runs are allocated together.
	pageRuns = 1 << pageShift
	allFree  = 1<<pageRuns - 1
	// keptPages may be empty without being given back, for the next to need one.
	keptPages = 16
	orphans   = 0 // number of the shelf of pages whose slot has left
)

type page [pageRuns]run

// vacant stands where a page was given back: stale hints that lead there find runs without blocks.
var vacant page

// pages hands out runs. A page takes the runs that one slot was the first to store, so that whole pages become
// empty, and go, when it leaves.
type pages struct {
	pages   []*page    // by runID >> pageShift; vacant where there is none
	info    []pageInfo // of the same
	unused  []uint32   // numbers of the vacant ones
	shelves []shelf    // orphans, then one for each slot
	kept    []*page
	runs    int // in use
	present int // pages that are not vacant
}

// shelf is the pages of a slot that have free runs, a list linked by pageInfo.
type shelf struct {
	first uint32
	left  bool // the slot has left, its pages count as orphans
}

type pageInfo struct {
	shelf      uint32 // where it belongs
	next, prev uint32 // on the shelf where it is; 0: none
	on         uint32 // that shelf
	free       uint16 // bit set of free runs
}

func newPages() pages {
	// Page 0 has no runs: numbers below pageRuns mean none.
	return pages{pages: []*page{&vacant}, info: make([]pageInfo, 1), shelves: make([]shelf, 1)}
}

func (p *pages) at(id runID) *run {
	return &p.pages[id>>pageShift][id%pageRuns]
}

// admit makes a shelf for a slot.
func (p *pages) admit(s Slot) {
	for int(s)+1 >= len(p.shelves) {
		p.shelves = append(p.shelves, shelf{})
	}
	p.shelves[s+1].left = false
}

// leave makes orphans of the slot's pages with free runs; full ones follow when they have some.
func (p *pages) leave(s Slot) {
	own := &p.shelves[s+1]
	own.left = true
	for own.first != 0 {
		number := own.first
		p.unlink(number)
		p.link(number, orphans)
	}
}

// take hands out a run without blocks for a slot.
func (p *pages) take(s Slot) (runID, *run) {
	number := p.shelves[s+1].first
	if number == 0 {
		number = p.shelves[orphans].first
	}
	if number == 0 {
		number = p.add(uint32(s) + 1)
	}
	info := &p.info[number]
	i := bits.TrailingZeros16(info.free)
	info.free &^= 1 << i
	if info.free == 0 {
		p.unlink(number)
	}
	p.runs++
	id := runID(number)<<pageShift | runID(i)
	return id, p.at(id)
}

// give takes a run without blocks back.
func (p *pages) give(id runID) {
	number := uint32(id >> pageShift)
	info := &p.info[number]
	if info.free == 0 {
		on := info.shelf
		if p.shelves[on].left {
			on = orphans
		}
		p.link(number, on)
	}
	info.free |= 1 << (id % pageRuns)
	p.runs--
	if info.free == allFree {
		p.remove(number)
	}
}

func (p *pages) add(shelf uint32) uint32 {
	if len(p.unused) == 0 {
		p.unused = append(p.unused, uint32(len(p.pages)))
		p.pages = append(p.pages, &vacant)
		p.info = append(p.info, pageInfo{})
	}
	number := p.unused[len(p.unused)-1]
	p.unused = p.unused[:len(p.unused)-1]
	if n := len(p.kept); n > 0 {
		p.pages[number], p.kept = p.kept[n-1], p.kept[:n-1]
	} else {
		p.pages[number] = new(page)
		p.present++
	}
	p.info[number] = pageInfo{shelf: shelf, free: allFree}
	p.link(number, shelf)
	return number
}

func (p *pages) remove(number uint32) {
	p.unlink(number)
	if len(p.kept) < keptPages && p.runs > 0 {
		p.kept = append(p.kept, p.pages[number])
	} else {
		p.present--
	}
	p.pages[number] = &vacant
	p.unused = append(p.unused, number)
	if p.runs == 0 {
		p.present -= len(p.kept)
		p.kept = nil
	}
}

func (p *pages) link(number, on uint32) {
	head := &p.shelves[on]
	info := &p.info[number]
	info.on, info.prev, info.next = on, 0, head.first
	if head.first != 0 {
		p.info[head.first].prev = number
	}
	head.first = number
}

func (p *pages) unlink(number uint32) {
	info := &p.info[number]
	if info.prev != 0 {
		p.info[info.prev].next = info.next
	} else {
		p.shelves[info.on].first = info.next
	}
	if info.next != 0 {
		p.info[info.next].prev = info.prev
	}
}
