package bpe

// Scratch is the working memory of one goroutine, for one model. The zero value is ready.
type Scratch struct {
	symbols    []uint32
	tokens     []uint32 // of a word that is tried
	window     window
	pair       []uint32 // of two tokens that are merged anew
	pairWindow window
	neighbours [1 << neighbourBits]uint64 // keys of pairs that stay apart, plus 1
	long       long
	cache      *cache
	longCache  *longCache
}

func (s *Scratch) init() {
	if s.cache == nil {
		s.cache, s.longCache = new(cache), new(longCache)
	}
}

// windowSymbols bounds what is merged by looking at all pairs for each merge: up to so many
// symbols nothing is faster.
const windowSymbols = 128

// window is the memory of mergeShort: a list of symbols whose places never change, so that
// finding the next pair is a loop without branches.
type window struct {
	tokens     [windowSymbols + 1]uint32
	next, prev [windowSymbols + 1]uint8
	keys       [windowSymbols]uint32 // of a symbol and the next: rank and place, or noKey
	least      [windowSymbols / blockKeys]uint32
	out        [windowSymbols]uint32
}

const (
	placeBits = 8
	noKey     = noRank << placeBits
	blockKeys = 16 // of which the least is noted
)

// mergeShort merges at most windowSymbols symbols and returns the tokens, which are w's.
func (m *Model) mergeShort(symbols []uint32, w *window) []uint32 {
	n := copy(w.tokens[:windowSymbols], symbols)
	w.fill(n, &m.pairs)
	blocks := w.least[:(n+blockKeys-1)/blockKeys]
	for {
		best := uint32(noKey)
		for _, k := range blocks {
			best = min(best, k)
		}
		if best == noKey {
			break
		}
		w.join(int(best&(windowSymbols-1)), n, m.pairs.merged[best>>placeBits], &m.pairs)
	}
	out := 0
	for at := 0; at < n; at = int(w.next[at]) { // the first is never merged into another
		w.out[out&(windowSymbols-1)] = w.tokens[at]
		out++
	}
	return w.out[:out]
}

// fill makes the list and the keys of n symbols.
func (w *window) fill(n int, pairs *pairs) {
	for i := range n {
		w.next[i], w.prev[i] = uint8(i+1), uint8(i-1)
	}
	for i := 0; i < n-1; i++ {
		w.keys[i] = pairs.first(w.tokens[i], w.tokens[i+1])<<placeBits | uint32(i)
	}
	for i := n - 1; i < (n+blockKeys-1)/blockKeys*blockKeys; i++ {
		w.keys[i] = noKey
	}
	for i := range (n + blockKeys - 1) / blockKeys {
		w.note(i * blockKeys)
	}
}

// note finds the least key of the block that a place is in.
func (w *window) note(at int) {
	keys := (*[blockKeys]uint32)(w.keys[at&(windowSymbols-blockKeys):])
	a, b, c, d := keys[0], keys[1], keys[2], keys[3]
	for i := 4; i < blockKeys; i += 4 {
		a, b, c, d = min(a, keys[i]), min(b, keys[i+1]), min(c, keys[i+2]), min(d, keys[i+3])
	}
	w.least[at/blockKeys] = min(min(a, b), min(c, d), noKey)
}

// join merges the pair at a place and finds the keys of the new symbol and its neighbours.
func (w *window) join(at, n int, merged uint32, pairs *pairs) {
	gone := int(w.next[at] & (windowSymbols - 1))
	after := int(w.next[gone])
	w.tokens[at] = merged
	w.next[at] = uint8(after)
	w.keys[gone], w.keys[at] = noKey, noKey
	if after < n {
		w.prev[after] = uint8(at)
		w.keys[at] = pairs.rank(merged, w.tokens[after])<<placeBits | uint32(at)
	}
	if at > 0 {
		before := int(w.prev[at] & (windowSymbols - 1))
		w.keys[before] = pairs.rank(w.tokens[before], merged)<<placeBits | uint32(before)
		if before/blockKeys != at/blockKeys {
			w.note(before)
		}
	}
	if gone/blockKeys != at/blockKeys {
		w.note(gone)
	}
	w.note(at)
}

// merge appends the tokens that symbols merge to.
func (m *Model) merge(dst, symbols []uint32, s *Scratch) []uint32 {
	if len(symbols) == 0 {
		return dst
	}
	if len(symbols) <= windowSymbols {
		return append(dst, m.mergeShort(symbols, &s.window)...)
	}
	return m.mergeWindows(dst, symbols, s)
}

// mergeWindows merges a long piece window by window, in linear time. It rests on this: a
// sequence of tokens is what its symbols merge to if, and only if, that is so for each two
// neighbours. For as long as no merge crosses a border between tokens, what happens on its two
// sides is what happens without the rest of the piece; so the first merge to cross one would
// cross it with the two neighbours alone. Within a window the neighbours are right; where
// one window goes on for another, they are looked at.
func (m *Model) mergeWindows(dst, symbols []uint32, s *Scratch) []uint32 {
	from := len(dst)
	for at, failures := 0, 0; at < len(symbols); {
		size := min(len(symbols)-at, windowSymbols)
		whole := size == len(symbols)-at
		tokens := m.mergeShort(symbols[at:at+size], &s.window)
		if len(dst) > from && !m.neighbours(dst[len(dst)-1], tokens[0], symbols, at, s) {
			// The window began in the wrong place: begin it a token earlier.
			if failures++; failures > maxFailures+len(symbols)/(8*windowSymbols) {
				return m.mergeLong(dst[:from], symbols, s)
			}
			at -= m.spanBefore(dst[len(dst)-1], symbols[:at])
			dst = dst[:len(dst)-1]
			continue
		}
		end := at + windowSymbols - tailSymbols
		for i, t := range tokens {
			if !whole && i > 0 && at >= end {
				break
			}
			at += m.span(t, symbols[at:])
			dst = append(dst, t)
		}
	}
	return dst
}

const (
	// tailSymbols is about how much of a window is left to the next: what it lacks on its right
	// can change it.
	tailSymbols = 24
	// maxFailures is how often, and how much oftener in a longer piece, a window is begun anew
	// before the whole is merged at once.
	maxFailures = 16
)

// neighbours reports whether the symbols of two tokens that meet at a place merge to these two.
// Those that were found to are remembered: texts that need windows often repeat themselves.
func (m *Model) neighbours(left, right uint32, symbols []uint32, at int, s *Scratch) bool {
	key := uint64(left)<<tokenBits | uint64(right)
	known := &s.neighbours[key*hashFactor>>(64-neighbourBits)]
	if *known == key+1 {
		return true
	}
	both := symbols[at-m.spanBefore(left, symbols[:at]) : at+m.span(right, symbols[at:])]
	if len(both) > windowSymbols {
		s.pair = m.mergeLong(s.pair[:0], both, s)
	} else {
		s.pair = append(s.pair[:0], m.mergeShort(both, &s.pairWindow)...)
	}
	if len(s.pair) != 2 || s.pair[0] != left || s.pair[1] != right {
		return false
	}
	*known = key + 1
	return true
}

const neighbourBits = 8
