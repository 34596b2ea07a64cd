package route

const none = int32(-1)

// cache is a worker's pool of blocks with its prefix cache.
//
// Blocks are kept by runs: those that are resident of a run are its first ones, so a count
// says which. A run is held as long as a sequence uses it, and else in a list from the most
// to the least recently used one, at whose end blocks are evicted, the last of a run
// first. A sequence lets go of its runs from the last to the first, so that no block
// goes before one that continues it.
type cache struct {
	capacity int // blocks
	used     int // blocks of held runs, and those that sequences have to themselves
	idle     int // blocks of runs that nobody holds

	at    []int32 // by run: its node, or none
	nodes []node
	spare int32 // list of unused nodes by next
	first int32 // most recent
	last  int32

	watch watcher // nil: nobody
}

// watcher is told when blocks of a run, the first of which is its block from and the last
// its block to-1, become resident or are evicted.
type watcher interface {
	stored(run int32, from, to int)
	removed(run int32, from, to int)
}

// node is a run with at least one resident block or holder.
type node struct {
	run        int32 // none: generated tokens, which no prompt of the trace names
	blocks     int32 // resident
	holders    int32
	prev, next int32 // while nobody holds it
}

func newCache(capacity, runs int) *cache {
	c := &cache{capacity: capacity, at: make([]int32, runs), spare: none, first: none, last: none}
	for i := range c.at {
		c.at[i] = none
	}
	return c
}

// resident is how many of the run's first blocks are here.
func (c *cache) resident(run int32) int {
	if n := c.at[run]; n != none {
		return int(c.nodes[n].blocks)
	}
	return 0
}

// room says whether so many blocks can be reserved once these runs are held.
func (c *cache) room(runs []int32, blocks int) bool {
	claim := c.used + blocks
	for _, run := range runs {
		if n := &c.nodes[c.at[run]]; n.holders == 0 {
			claim += int(n.blocks)
		}
	}
	return claim <= c.capacity
}

// hold keeps a run from eviction; one that is not resident has no blocks yet.
func (c *cache) hold(run int32) {
	n := c.at[run]
	if n == none {
		n = c.take(run)
		c.at[run] = n
	} else if c.nodes[n].holders == 0 {
		c.unlink(n)
		c.idle -= int(c.nodes[n].blocks)
		c.used += int(c.nodes[n].blocks)
	}
	c.nodes[n].holders++
}

// reserve takes blocks for one sequence; there is room.
func (c *cache) reserve(blocks int) {
	for c.capacity-c.used-c.idle < blocks {
		c.evict(blocks - (c.capacity - c.used - c.idle))
	}
	c.used += blocks
}

// grow makes the first blocks of a held run resident, up to this number, out of those
// that a sequence has to itself, and says how many that took: a block that is here
// already stays the sequence's own copy.
func (c *cache) grow(run int32, blocks int) int {
	n := &c.nodes[c.at[run]]
	added := max(0, blocks-int(n.blocks))
	n.blocks += int32(added)
	if added > 0 && c.watch != nil {
		c.watch.stored(run, blocks-added, blocks)
	}
	return added
}

// release lets go of a run. A run that has no blocks is forgotten.
func (c *cache) release(run int32) {
	n := c.at[run]
	c.nodes[n].holders--
	if c.nodes[n].holders > 0 {
		return
	}
	if c.nodes[n].blocks == 0 {
		c.drop(n)
		return
	}
	c.used -= int(c.nodes[n].blocks)
	c.idle += int(c.nodes[n].blocks)
	c.pushFront(n)
}

// free gives back blocks that a sequence had to itself; generated of them stay resident,
// for what they are worth.
func (c *cache) free(blocks, generated int) {
	c.used -= blocks
	if generated > 0 {
		n := c.take(none)
		c.nodes[n].blocks = int32(generated)
		c.idle += generated
		c.pushFront(n)
	}
}

// evict takes at most so many blocks from the least recently used run.
func (c *cache) evict(blocks int) {
	n := c.last
	had, run := int(c.nodes[n].blocks), c.nodes[n].run
	gone := min(blocks, had)
	c.nodes[n].blocks -= int32(gone)
	c.idle -= gone
	if run != none && c.watch != nil {
		c.watch.removed(run, had-gone, had)
	}
	if gone == had {
		c.unlink(n)
		c.drop(n)
	}
}

func (c *cache) take(run int32) int32 {
	n := c.spare
	if n == none {
		n = int32(len(c.nodes))
		c.nodes = append(c.nodes, node{})
	} else {
		c.spare = c.nodes[n].next
	}
	c.nodes[n] = node{run: run, prev: none, next: none}
	return n
}

func (c *cache) drop(n int32) {
	if run := c.nodes[n].run; run != none {
		c.at[run] = none
	}
	c.nodes[n].next, c.spare = c.spare, n
}

func (c *cache) unlink(n int32) {
	prev, next := c.nodes[n].prev, c.nodes[n].next
	if prev == none {
		c.first = next
	} else {
		c.nodes[prev].next = next
	}
	if next == none {
		c.last = prev
	} else {
		c.nodes[next].prev = prev
	}
}

func (c *cache) pushFront(n int32) {
	c.nodes[n].prev, c.nodes[n].next = none, c.first
	if c.first == none {
		c.last = n
	} else {
		c.nodes[c.first].prev = n
	}
	c.first = n
}
