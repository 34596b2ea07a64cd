package unigram

import "github.com/switchyard-llm/switchyard/libs/tokenizer/spec"

// builder makes a trie of sorted pieces.
type builder struct {
	trie   *trie
	pieces []spec.Piece
	// next and last link the free units of the open blocks in a ring, from unit 0 on, which is never taken.
	next, last []uint32
	// used has the bases that are taken.
	used []bool
	// nodes are still to be given children.
	nodes []node
	// labels are the bytes of the children of the node at hand, and starts where their pieces are.
	labels []byte
	starts []int
}

// newBuilder starts with a block that stays empty, so that no unit has a base in it.
func newBuilder(pieces []spec.Piece) *builder {
	b := &builder{trie: &trie{}, pieces: pieces}
	for range blockSize {
		b.trie.units = append(b.trie.units, unit{parent: free})
		b.trie.ids = append(b.trie.ids, -1)
	}
	b.used = make([]bool, blockSize)
	b.next, b.last = make([]uint32, blockSize), make([]uint32, blockSize)
	for slot := 1; slot < blockSize; slot++ {
		b.next[slot] = taken
	}
	return b
}

// node stands for the pieces of a range of the order, which have their first depth bytes in common.
type node struct {
	unit   uint32
	pieces []int32
	depth  int
}

// build gives each node its children. The unit of the root is not of the array.
func (b *builder) build(order []int32) {
	b.children(order, 0)
	b.trie.root = b.place()
	b.push(order, b.trie.root, 0)
	for len(b.nodes) > 0 {
		n := b.nodes[len(b.nodes)-1]
		b.nodes = b.nodes[:len(b.nodes)-1]
		rest := b.take(n)
		if len(rest) == 0 {
			continue
		}
		b.children(rest, n.depth)
		base := b.place()
		b.trie.units[n.unit].base |= base
		b.push(rest, base, n.depth)
	}
}

// take marks the piece that ends at the node, of which the last of equals counts, and returns the others.
func (b *builder) take(n node) []int32 {
	i := 0
	for i < len(n.pieces) && len(b.pieces[n.pieces[i]].Text) == n.depth {
		i++
	}
	if i > 0 {
		b.trie.units[n.unit].base |= isPiece
		b.trie.ids[n.unit] = n.pieces[i-1]
	}
	return n.pieces[i:]
}

// children finds the bytes that follow, and where their pieces start.
func (b *builder) children(pieces []int32, depth int) {
	b.labels, b.starts = b.labels[:0], b.starts[:0]
	for i, id := range pieces {
		c := b.pieces[id].Text[depth]
		if n := len(b.labels); n == 0 || b.labels[n-1] != c {
			b.labels = append(b.labels, c)
			b.starts = append(b.starts, i)
		}
	}
}

// push puts the children at a base, and themselves in line.
func (b *builder) push(pieces []int32, base uint32, depth int) {
	for i, c := range b.labels {
		end := len(pieces)
		if i+1 < len(b.labels) {
			end = b.starts[i+1]
		}
		slot := base ^ uint32(c)
		b.trie.units[slot].parent = base
		b.nodes = append(b.nodes, node{unit: slot, pieces: pieces[b.starts[i]:end], depth: depth + 1})
	}
}

// place finds a base where all children have a free unit, and takes them.
func (b *builder) place() uint32 {
	if len(b.labels) == 0 {
		return blockSize
	}
	base := b.findBase()
	b.used[base] = true
	for _, c := range b.labels {
		b.unlink(base ^ uint32(c))
	}
	return base
}

func (b *builder) findBase() uint32 {
	for slot := b.next[0]; slot != 0; slot = b.next[slot] {
		base := slot ^ uint32(b.labels[0])
		if !b.used[base] && b.fits(base) {
			return base
		}
	}
	b.grow()
	return uint32(len(b.next)-blockSize) ^ uint32(b.labels[0])
}

func (b *builder) fits(base uint32) bool {
	for _, c := range b.labels[1:] {
		if b.next[base^uint32(c)] == taken {
			return false
		}
	}
	return true
}

// taken is the link of a unit that is not free.
const taken = 1<<32 - 1

func (b *builder) unlink(slot uint32) {
	next, last := b.next[slot], b.last[slot]
	b.next[last], b.last[next] = next, last
	b.next[slot] = taken
}

// grow adds a block of free units, and closes the oldest that is open.
func (b *builder) grow() {
	start := uint32(len(b.next))
	for slot := start; slot < start+blockSize; slot++ {
		b.trie.units = append(b.trie.units, unit{parent: free})
		b.trie.ids = append(b.trie.ids, -1)
		b.used = append(b.used, false)
		// Before unit 0, which is the end of the ring.
		b.next, b.last = append(b.next, 0), append(b.last, b.last[0])
		b.next[b.last[0]] = slot
		b.last[0] = slot
	}
	if start < openBlocks*blockSize {
		return
	}
	for slot := start - openBlocks*blockSize; slot < start-(openBlocks-1)*blockSize; slot++ {
		if slot != 0 && b.next[slot] != taken {
			b.unlink(slot)
		}
	}
}
