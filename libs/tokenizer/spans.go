package tokenizer

// spans is a list of byte ranges in ascending order, asked about from left to right.
type spans []span

type span struct{ start, end int }

// overlap reports whether a range that starts no earlier than that of the last
// call has a byte in one of the spans.
func (s *spans) overlap(start, end int) bool {
	for len(*s) > 0 && (*s)[0].end <= start {
		*s = (*s)[1:]
	}
	return len(*s) > 0 && (*s)[0].start < end
}

// from returns the spans of a text that starts at a byte.
func (s spans) from(at int) (out spans) {
	if at == 0 {
		return s
	}
	for _, x := range s {
		if x.end > at {
			out = append(out, span{max(x.start-at, 0), x.end - at})
		}
	}
	return out
}

// normalizedSpans returns where the normalized form of a text comes from one of its spans.
func (t *Tokenizer) normalizedSpans(text string, of spans) (out spans) {
	if len(of) == 0 {
		return nil
	}
	_, sources := t.normalizer.AppendAligned(nil, nil, text)
	for i, source := range sources {
		if !of.overlap(int(source.Start), int(source.End)) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].end == i {
			out[n-1].end++
			continue
		}
		out = append(out, span{i, i + 1})
	}
	return out
}
