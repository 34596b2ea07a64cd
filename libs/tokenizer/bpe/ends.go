package bpe

// Ends appends, for each token of a piece, the byte of the piece at which it ends. A byte
// that has no token and was dropped belongs to the token that it is within, or else to the next.
func (m *Model) Ends(dst []int, piece string, tokens []uint32) []int {
	var symbols []uint32
	var ends []int
	for i := 0; i < len(piece); {
		n, before := 1, len(symbols)
		if m.symbols.bytewise {
			if id := m.symbols.bytes[piece[i]]; id != NoToken {
				symbols = append(symbols, id)
			}
		} else {
			_, n = decode(piece, i)
			symbols = m.symbols.appendCharacters(symbols, piece[i:i+n])
		}
		for j := range len(symbols) - before {
			end := i + n
			if len(symbols)-before > 1 {
				end = i + j + 1 // bytes of a character
			}
			ends = append(ends, end)
		}
		i += n
	}
	return m.join(dst, symbols, ends, tokens)
}

// join finds the end of each token in those of the symbols.
func (m *Model) join(dst []int, symbols []uint32, ends []int, tokens []uint32) []int {
	at := 0
	for _, id := range tokens {
		n := m.span(id, symbols[at:])
		for id == m.symbols.unk && m.symbols.fuse && at+n < len(symbols) && symbols[at+n] == id {
			n++ // a run that is one token
		}
		at += n
		dst = append(dst, ends[at-1])
	}
	return dst
}
