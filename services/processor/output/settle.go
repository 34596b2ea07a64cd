package output

// settlement follows how much of each token's text has been delivered. Its methods do
// nothing on nil.
type settlement struct {
	ends      []int // ends[i] is how many bytes the text has with token i; an end token without text has none
	delivered int   // bytes
	tokens    int   // leading ones whose text is delivered
}

// push notes a token and the bytes that the text has gained by it.
func (s *settlement) push(bytes int) {
	if s == nil {
		return
	}
	if n := len(s.ends); n > 0 {
		bytes += s.ends[n-1]
	}
	s.ends = append(s.ends, bytes)
}

// flush adds to the last token the bytes that the end of the text has brought.
func (s *settlement) flush(bytes int) {
	if s != nil && len(s.ends) > 0 {
		s.ends[len(s.ends)-1] += bytes
	}
}

// deliver notes bytes of text that are delivered.
func (s *settlement) deliver(bytes int) {
	if s == nil {
		return
	}
	s.delivered += bytes
	for s.tokens < len(s.ends) && s.ends[s.tokens] <= s.delivered {
		s.tokens++
	}
}

// end takes in the token of which only a part is in the text, since a stop text cut it.
func (s *settlement) end() {
	if s == nil || s.tokens == len(s.ends) {
		return
	}
	start := 0
	if s.tokens > 0 {
		start = s.ends[s.tokens-1]
	}
	if start < s.delivered {
		s.tokens++
	}
}
