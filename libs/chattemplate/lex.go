package chattemplate

// word is a token of an expression: a name, a number, a string literal as it
// stands, or one character of punctuation.
type word struct {
	kind wordKind
	text string
	at   int // where it starts
}

type wordKind int

const (
	wordName wordKind = iota
	wordNumber
	wordString
	wordMark
)

// words splits an expression as the library does, which skips what it does not know.
func words(s string) (out []word) {
	for i := 0; i < len(s); {
		c, n := s[i], 1
		kind := wordMark
		switch {
		case c == '\'' || c == '"':
			kind, n = wordString, quoted(s[i:])
		case isDigit(c):
			kind = wordNumber
			for i+n < len(s) && isDigit(s[i+n]) {
				n++
			}
		case isLetter(c):
			kind = wordName
			for i+n < len(s) && (isLetter(s[i+n]) || isDigit(s[i+n])) {
				n++
			}
		case c <= ' ' || c >= 0x7f:
			i++
			continue
		}
		out = append(out, word{kind, s[i : i+n], i})
		i += n
	}
	return out
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// isName reports whether s is one name.
func isName(s string) bool {
	w := words(s)
	return len(w) == 1 && w[0].kind == wordName && w[0].text == s
}
