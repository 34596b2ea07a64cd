package bpe

// AppendPieces appends the tokens of the pieces of a text that start at a byte and have the
// ends. Ends with a bit of dropped set are those of pieces that have none.
func (m *Model) AppendPieces(dst []uint32, text string, at int, ends []uint32, dropped uint32, s *Scratch) []uint32 {
	s.init()
	cache := s.cache
	for _, mark := range ends {
		end := int(mark &^ dropped)
		n := end - at
		switch {
		case mark&dropped != 0:
		case uint(n-1) >= keyBytes || at+16 > len(text) || cap(dst)-len(dst) < lineTokens || m.plain:
			dst = m.Append(dst, text[at:end], s)
		default:
			low, high := wideKey(text, at, n)
			h := mix(low, high)
			line := cache.first(low, high, h)
			if line.low != low || line.high != high {
				if line = cache.findOther(low, high, h); line == nil {
					dst = m.appendNew(dst, text[at:end], s)
					break
				}
			}
			k := len(dst)
			line.unpack((*[lineTokens]uint32)(dst[k : k+lineTokens]))
			dst = dst[:k+line.count()]
		}
		at = end
	}
	return dst
}

// Append appends the tokens of a piece, which is not empty, to dst.
func (m *Model) Append(dst []uint32, piece string, s *Scratch) []uint32 {
	if m.plain {
		return m.symbols.append(dst, piece)
	}
	s.init()
	for len(piece) > keyBytes {
		at := m.Border(piece, 1)
		if at < 0 {
			return m.appendLong(dst, piece, s)
		}
		if at > keyBytes {
			dst = m.appendLong(dst, piece[:at], s)
		} else {
			dst = m.appendShort(dst, piece[:at], s)
		}
		piece = piece[at:]
	}
	return m.appendShort(dst, piece, s)
}

// Plain reports whether nothing is ever merged.
func (m *Model) Plain() bool { return m.plain }

// appendShort appends the tokens of a piece that is a key.
func (m *Model) appendShort(dst []uint32, piece string, s *Scratch) []uint32 {
	low, high := key(piece)
	if line := s.cache.find(low, high, mix(low, high)); line != nil {
		return line.append(dst)
	}
	return m.appendNew(dst, piece, s)
}

// appendNew is appendShort for a piece that is not in the cache.
func (m *Model) appendNew(dst []uint32, piece string, s *Scratch) []uint32 {
	from := len(dst)
	dst = m.appendMerged(dst, piece, s)
	low, high := key(piece)
	s.cache.put(low, high, mix(low, high), dst[from:])
	return dst
}

// appendLong appends the tokens of a piece that is no key.
func (m *Model) appendLong(dst []uint32, piece string, s *Scratch) []uint32 {
	if len(piece) > longBytes {
		return m.appendMerged(dst, piece, s)
	}
	h := hashLong(piece)
	if line := s.longCache.find(piece, h); line != nil {
		return append(dst, line.tokens[:line.count]...)
	}
	from := len(dst)
	dst = m.appendMerged(dst, piece, s)
	s.longCache.put(piece, h, dst[from:])
	return dst
}

// appendMerged appends the tokens of a piece that is not remembered.
func (m *Model) appendMerged(dst []uint32, piece string, s *Scratch) []uint32 {
	if id, ok := m.words.find(piece, &m.texts); ok {
		return append(dst, id)
	}
	s.symbols = m.symbols.append(s.symbols[:0], piece)
	return m.merge(dst, s.symbols, s)
}
