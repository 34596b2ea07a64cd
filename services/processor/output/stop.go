package output

// matcher finds stop texts in a text that comes in pieces. A byte is delivered only when
// it can no longer be part of a stop text, and what is delivered does not depend on how
// the text was cut: the matcher advances byte by byte, one Knuth-Morris-Pratt state per
// stop text. Where several end at the same byte the longest counts.
//
// Stop texts and pieces are valid UTF-8, so a partial match starts at a character's
// first byte and no character is torn.
type matcher struct {
	patterns []pattern
	held     []byte // the longest suffix of the text that may become a stop text
}

type pattern struct {
	text  string
	back  []int // back[i]: length of the longest border of text[:i+1]
	state int   // bytes of text matched
}

func newMatcher(stops []string) *matcher {
	m := &matcher{patterns: make([]pattern, len(stops))}
	for i, s := range stops {
		m.patterns[i] = pattern{text: s, back: borders(s)}
	}
	return m
}

// borders is the failure function of Knuth, Morris and Pratt.
func borders(s string) []int {
	back := make([]int, len(s))
	for i, k := 1, 0; i < len(s); i++ {
		for k > 0 && s[i] != s[k] {
			k = back[k-1]
		}
		if s[i] == s[k] {
			k++
		}
		back[i] = k
	}
	return back
}

// add takes the next piece and returns what may be delivered. After stopped, that is all
// up to the stop text, and the matcher is at its end.
func (m *matcher) add(piece string, mayStop, include bool) (text string, stopped bool) {
	if len(m.patterns) == 0 {
		return piece, false
	}
	m.held = append(m.held, piece...)
	for i := range len(piece) {
		if n := m.step(piece[i]); n > 0 && mayStop {
			end := len(m.held) - (len(piece) - i - 1)
			if !include {
				end -= n
			}
			return string(m.held[:end]), true
		}
	}
	partial := 0
	for _, p := range m.patterns {
		partial = max(partial, p.state)
	}
	text = string(m.held[:len(m.held)-partial])
	m.held = append(m.held[:0], m.held[len(m.held)-partial:]...)
	return text, false
}

// step advances all patterns by one byte and returns the length of the longest that is complete.
func (m *matcher) step(b byte) int {
	longest := 0
	for i := range m.patterns {
		p := &m.patterns[i]
		for p.state > 0 && p.text[p.state] != b {
			p.state = p.back[p.state-1]
		}
		if p.text[p.state] == b {
			p.state++
		}
		if p.state == len(p.text) {
			longest = max(longest, p.state)
			p.state = p.back[p.state-1]
		}
	}
	return longest
}

// rest returns what is still held back: it became no stop text.
func (m *matcher) rest() string {
	text := string(m.held)
	m.held = nil
	return text
}
