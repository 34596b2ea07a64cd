package bpe

// long is the memory of mergeLong: the symbols as a list, and the pairs that merge as a heap.
type long struct {
	symbols []uint32 // NoToken: merged away
	next    []int32  // the following symbol, len(symbols) at the end
	prev    []int32
	pairs   pairHeap
}

// pairHeap orders pairs by rank, then place: one number. The standard library's heap would
// allocate for each.
type pairHeap []uint64

func (h *pairHeap) push(x uint64) {
	s := append(*h, x)
	at := len(s) - 1
	for at > 0 && s[(at-1)/2] > x {
		s[at] = s[(at-1)/2]
		at = (at - 1) / 2
	}
	s[at] = x
	*h = s
}

func (h *pairHeap) pop() uint64 {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	for at := 0; len(s) > 0; {
		child := 2*at + 1
		if child+1 < len(s) && s[child+1] < s[child] {
			child++
		}
		if child >= len(s) || s[child] >= last {
			s[at] = last
			break
		}
		s[at] = s[child]
		at = child
	}
	return top
}

// mergeLong merges n symbols in n log n: for what windows cannot do.
func (m *Model) mergeLong(dst, symbols []uint32, s *Scratch) []uint32 {
	l := &s.long
	l.symbols = append(l.symbols[:0], symbols...)
	l.next, l.prev, l.pairs = l.next[:0], l.prev[:0], l.pairs[:0]
	for i := range symbols {
		l.next, l.prev = append(l.next, int32(i+1)), append(l.prev, int32(i-1))
	}
	for i := range len(symbols) - 1 {
		if rank := m.pairs.rank(symbols[i], symbols[i+1]); rank != noRank {
			l.pairs.push(uint64(rank)<<32 | uint64(i))
		}
	}
	for len(l.pairs) > 0 {
		top := l.pairs.pop()
		at := int(uint32(top))
		after := int(l.next[at])
		// An entry is stale when one of its symbols was merged since: then the pair has
		// another rank, or none.
		if l.symbols[at] == NoToken || after == len(symbols) || uint64(m.pairs.rank(l.symbols[at], l.symbols[after])) != top>>32 {
			continue
		}
		l.symbols[at], l.symbols[after] = m.pairs.merged[top>>32], NoToken
		l.next[at] = l.next[after]
		if next := int(l.next[at]); next < len(symbols) {
			l.prev[next] = int32(at)
			m.offer(l, at, next)
		}
		if prev := int(l.prev[at]); prev >= 0 {
			m.offer(l, prev, at)
		}
	}
	for at := 0; at < len(symbols); at = int(l.next[at]) { // the first is never merged into another
		dst = append(dst, l.symbols[at])
	}
	return dst
}

func (m *Model) offer(l *long, left, right int) {
	if rank := m.pairs.rank(l.symbols[left], l.symbols[right]); rank != noRank {
		l.pairs.push(uint64(rank)<<32 | uint64(left))
	}
}
