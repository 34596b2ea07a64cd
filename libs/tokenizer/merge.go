package tokenizer

import "github.com/switchyard-llm/switchyard/libs/sequence"

// longPiece is where the heap begins to beat repeated scans, in symbols.
const longPiece = 64

// scratch is the working memory of one Encode.
type scratch struct {
	symbols []sequence.Token
	ranks   []uint32 // of a symbol with its right neighbour
	next    []int32  // for long pieces: the following symbol, -1 at the end or when merged away
	prev    []int32
	heap    rankHeap
	joined  []byte
}

// merge appends the tokens that the bytes of a piece merge to.
func (b *bpe) merge(dst []sequence.Token, piece string, s *scratch) []sequence.Token {
	s.symbols = s.symbols[:0]
	for i := range len(piece) {
		if id := b.bytes[piece[i]]; id != noToken {
			s.symbols = append(s.symbols, id)
		}
	}
	if len(s.symbols) >= longPiece {
		return b.mergeLong(dst, s)
	}
	return append(dst, b.mergeShort(s)...)
}

// mergeShort looks through all pairs for each merge: for the few symbols of a word
// nothing is faster.
func (b *bpe) mergeShort(s *scratch) []sequence.Token {
	symbols := s.symbols
	ranks := s.ranks[:0]
	for i := 0; i+1 < len(symbols); i++ {
		ranks = append(ranks, b.rank(symbols[i], symbols[i+1]))
	}
	s.ranks = ranks
	for {
		best, at := noRank, -1
		for i, r := range ranks {
			if r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols[at] = b.slot(symbols[at], symbols[at+1]).merged
		symbols = append(symbols[:at+1], symbols[at+2:]...)
		ranks = append(ranks[:at], ranks[at+1:]...)
		if at > 0 {
			ranks[at-1] = b.rank(symbols[at-1], symbols[at])
		}
		if at < len(ranks) {
			ranks[at] = b.rank(symbols[at], symbols[at+1])
		}
	}
}

// mergeLong keeps the pairs in a heap and the symbols in a list, so that a piece
// of n symbols costs n log n.
func (b *bpe) mergeLong(dst []sequence.Token, s *scratch) []sequence.Token {
	n := len(s.symbols)
	s.next, s.prev, s.heap = s.next[:0], s.prev[:0], s.heap[:0]
	for i := range n {
		s.next = append(s.next, int32(i+1))
		s.prev = append(s.prev, int32(i-1))
	}
	s.next[n-1] = -1
	for i := range n - 1 {
		b.offer(s, int32(i))
	}
	for len(s.heap) > 0 {
		rank, at := s.heap.pop()
		after := s.next[at]
		// An entry is stale when one of its symbols was merged since: then the pair
		// has another rank, or none.
		if s.symbols[at] == noToken || after < 0 {
			continue
		}
		slot := b.slot(s.symbols[at], s.symbols[after])
		if slot.left == noToken || slot.rank != rank {
			continue
		}
		s.symbols[at], s.symbols[after] = slot.merged, noToken
		s.next[at] = s.next[after]
		if s.next[at] >= 0 {
			s.prev[s.next[at]] = at
		}
		b.offer(s, at)
		b.offer(s, s.prev[at])
	}
	for at := int32(0); at >= 0; at = s.next[at] { // the first symbol is never merged into another
		dst = append(dst, s.symbols[at])
	}
	return dst
}

// offer puts the pair that starts at a symbol into the heap, if it merges.
func (b *bpe) offer(s *scratch, at int32) {
	if at < 0 || s.next[at] < 0 {
		return
	}
	if rank := b.rank(s.symbols[at], s.symbols[s.next[at]]); rank != noRank {
		s.heap.push(rank, at)
	}
}
