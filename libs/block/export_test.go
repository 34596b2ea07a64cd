package block

import "fmt"

// Check verifies that states, references, bookings, lists and the index of the pool
// agree. The tables are all that were admitted; released ones may be among them.
func (p *Pool) Check(tables []*Table) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := checker{pool: p, owner: make([]string, len(p.blocks)), refs: make([]int32, len(p.blocks)), holds: make([]int32, len(p.blocks))}
	c.tables(tables)
	c.transfers()
	c.lists()
	c.index()
	c.blocks()
	return c.err
}

// TokensOf copies the tokens that the pool remembers of block b.
func (p *Pool) TokensOf(b ID) []uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]uint32(nil), p.tokensOf(b)...)
}

// StateOf is the state of block b.
func (p *Pool) StateOf(b ID) State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocks[b].state
}

// Spaces is the number of namespaces that the pool remembers.
func (p *Pool) Spaces() int { return len(p.spaces) + len(p.spaceByID) }

type checker struct {
	pool  *Pool
	owner []string // of blocks that have exactly one
	refs  []int32
	holds []int32
	err   error
}

func (c *checker) want(ok bool, format string, args ...any) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *checker) own(b ID, state State, owner string) {
	c.want(c.owner[b] == "", "block %d belongs to %s and to %s", b, c.owner[b], owner)
	c.want(c.pool.blocks[b].state == state, "block %d of %s is %v, want %v", b, owner, c.pool.blocks[b].state, state)
	c.owner[b] = owner
}

func (c *checker) tables(tables []*Table) {
	p, booked, users := c.pool, 0, map[*space]int{}
	for i, t := range tables {
		if t.released {
			c.want(t.booked == 0 && t.blocks == nil && t.transfer == nil, "released table %d has not let go", i)
			continue
		}
		booked += t.booked
		users[t.space]++
		parent := t.space.id
		for j, b := range t.blocks {
			r := &p.blocks[b]
			c.refs[b]++
			full := (j+1)*p.config.BlockTokens <= t.len
			if !full {
				c.own(b, Open, fmt.Sprintf("table %d", i))
				continue
			}
			c.want(r.state == Sealed || r.state == Held, "full block %d of table %d is %v", b, i, r.state)
			c.want(r.node == 0 || r.parent == parent, "block %d of table %d has parent %d, want %d", b, i, r.parent, parent)
			c.want(j >= t.cached || r.node != 0, "hit block %d of table %d is not indexed", b, i)
			parent = r.node
		}
	}
	c.want(booked == p.booked, "booked is %d, tables have %d", p.booked, booked)
	for i := range p.blocks {
		if r := &p.blocks[i]; r.indexed && r.first {
			users[p.spaceByID[r.parent]]++
		}
	}
	c.want(len(users) == len(p.spaces) && len(users) == len(p.spaceByID), "%d spaces are used, %d known", len(users), len(p.spaces))
	for s, n := range users {
		c.want(s != nil && s.uses == n && p.spaces[s.name] == s, "space %v: want %d uses", s, n)
	}
}

func (c *checker) transfers() {
	p, quarantined := c.pool, map[WriterID]int{}
	for id, x := range p.transfers {
		c.want(x.id == id && x.table.transfer == x, "transfer %s and its table do not know each other", id)
		c.want(x.committed || x.ticket == nil || x.reserved == nil, "transfer %s is reserved and claimed", id)
		for _, b := range x.reserved {
			c.own(b, Reserved, "transfer "+string(id))
		}
		if x.ticket != nil && !x.committed {
			c.want(len(x.ticket.Blocks) == x.need, "ticket %d has %d blocks, want %d", x.ticket.Number, len(x.ticket.Blocks), x.need)
			c.ownTicket(x.ticket, Claimed)
		}
	}
	for number, tk := range p.quarantine {
		c.want(number == tk.Number, "ticket %d is filed as %d", tk.Number, number)
		quarantined[tk.Writer] += len(tk.Blocks)
		c.ownTicket(tk, Quarantine)
	}
	c.want(fmt.Sprint(quarantined) == fmt.Sprint(p.quarantineOf), "quarantine by writer is %v, want %v", p.quarantineOf, quarantined)
	for k, h := range p.holds {
		c.want(!h.released || h.blocks == nil, "released hold %v has blocks", k)
		for _, b := range h.blocks {
			c.holds[b]++
		}
	}
}

func (c *checker) ownTicket(tk *ticket, state State) {
	for _, ref := range tk.Blocks {
		c.own(ref.ID, state, fmt.Sprintf("ticket %d", tk.Number))
		c.want(c.pool.blocks[ref.ID].generation == ref.Generation, "block %d was used anew under ticket %d", ref.ID, tk.Number)
	}
}

func (c *checker) lists() {
	p := c.pool
	for _, b := range p.free {
		c.own(b, Free, "the free list")
	}
	age, n, last := map[uint64]int{}, 0, none
	for b := p.oldest; b != none && n <= len(p.blocks); b = p.blocks[b].next {
		r := &p.blocks[b]
		c.own(b, Sealed, "the evictable list")
		c.want(r.evictable && r.indexed && r.prev == last, "block %d is in the evictable list by mistake", b)
		age[r.node] = n
		last = b
		n++
	}
	c.want(last == p.newest && n == p.evictable, "%d evictable blocks, want %d", p.evictable, n)
	c.want(p.available() >= 0, "available is %d", p.available())
	for b := p.oldest; b != none; b = p.blocks[b].next {
		r := &p.blocks[b]
		at, resting := age[r.parent]
		c.want(!resting || at > age[r.node], "block %d is evicted after its parent", b)
	}
}

func (c *checker) index() {
	p, nodes := c.pool, map[uint64]bool{}
	for hash, b := range p.index {
		r := &p.blocks[b]
		c.want(r.indexed && r.hash == hash && r.node != 0, "block %d is in the index by mistake", b)
		c.want(!nodes[r.node], "node %d is indexed twice", r.node)
		nodes[r.node] = true
	}
	for i := range p.blocks {
		r, b := &p.blocks[i], ID(i)
		c.want(p.blocks[r.left].right == b && p.blocks[r.right].left == b, "the ring of block %d is broken", b)
		c.want(r.left == b || p.blocks[r.left].node == r.node, "the ring of block %d has other content", b)
		c.want(!r.indexed || p.index[r.hash] == b, "block %d is not in the index", b)
		c.want((r.node == 0) == !nodes[r.node], "node %d of block %d is not indexed", r.node, b)
		if r.node != 0 {
			c.want(nodes[r.parent] || p.spaceByID[r.parent] != nil, "parent %d of block %d is gone", r.parent, b)
		}
	}
}

func (c *checker) blocks() {
	p := c.pool
	var count [States]int
	for i := range p.blocks {
		r := &p.blocks[i]
		count[r.state]++
		c.want(r.refs == c.refs[i], "block %d has %d refs, want %d", i, r.refs, c.refs[i])
		c.want(r.holds == c.holds[i], "block %d has %d holds, want %d", i, r.holds, c.holds[i])
		c.want((r.state == Held) == (r.holds > 0), "block %d is %v with %d holds", i, r.state, r.holds)
		shared := r.refs > 0 && (r.state == Sealed || r.state == Held) || r.state == Held
		c.want(shared != (c.owner[i] != ""), "block %d is %v, with %d refs and owner %q", i, r.state, r.refs, c.owner[i])
	}
	c.want(count == p.count, "count is %v, want %v", p.count, count)
	c.want(p.count[Held] <= p.config.HeldCap, "%d blocks are held, cap %d", p.count[Held], p.config.HeldCap)
}

// Indexed is what the index names: hash to the parent's hash, worked out from the tables'
// own numbers and not from the changes.
func (p *Pool) Indexed() map[Hash]Hash {
	p.mu.Lock()
	defer p.mu.Unlock()
	hashOf := map[uint64]Hash{}
	for h, b := range p.index {
		hashOf[p.blocks[b].node] = h
	}
	out := map[Hash]Hash{}
	for h, b := range p.index {
		r := &p.blocks[b]
		if r.first {
			out[h] = p.spaceByID[r.parent].root
		} else {
			out[h] = hashOf[r.parent]
		}
	}
	return out
}
