package split

// Dropped marks the end of a piece that is not kept.
const Dropped = 1 << 31

// Fill writes the ends of the pieces that start at byte at of a text and before a limit, as
// many as there is room for, and returns how many there are. It is Next for many pieces at a
// time. A text is below 2 GiB. A cursor may be taken on to a place behind a border.
func (s *Splitter) Fill(text string, at, limit int, c *Cursor, out []uint32) (n int) {
	if s.plain {
		n, at = s.levels[0].a.fill(text, at, limit, out)
	}
	for ; n < len(out) && at < limit; n++ {
		var keep bool
		at, keep = s.Next(text, at, c)
		if out[n] = uint32(at); !keep {
			out[n] |= Dropped
		}
	}
	return n
}
