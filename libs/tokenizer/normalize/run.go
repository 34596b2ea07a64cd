package normalize

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// run matches the regular expressions that normalizers are seen to have: one character or set of them,
// and how often it stands in a row: " {2,}", "\s+", "[\r\n]".
type run struct {
	ascii [utf8.RuneSelf]bool
	// others are the characters of the set that are not ASCII; spaces adds the white space.
	others string
	spaces bool
	// least is how many it takes; a match is all there are in a row if greedy, else that many.
	least  int
	greedy bool
}

var errPattern = errors.New(`only a character or a set, such as " ", "\s" and "[\r\n]", ` +
	`with "+", "{n}", "{n,}" or nothing after it is supported`)

func newRun(pattern string) (*run, error) {
	m := &run{}
	rest, err := m.parseSet(pattern)
	if err != nil {
		return nil, err
	}
	return m, m.parseCount(rest)
}

func (m *run) parseSet(pattern string) (rest string, err error) {
	if pattern[0] != '[' {
		return m.parseOne(pattern)
	}
	rest = pattern[1:]
	for i := 0; ; i++ {
		if rest == "" {
			return "", errPattern
		}
		if rest[0] == ']' && i > 0 {
			return rest[1:], nil
		}
		if rest, err = m.parseOne(rest); err != nil {
			return "", err
		}
	}
}

// parseOne adds the first character of the pattern, which may be escaped.
func (m *run) parseOne(pattern string) (rest string, err error) {
	r, n := utf8.DecodeRuneInString(pattern)
	if r != '\\' {
		if strings.ContainsRune(`.^$*+?{}[]()|-&`, r) {
			return "", errPattern
		}
		m.add(r)
		return pattern[n:], nil
	}
	if len(pattern) < 2 {
		return "", errPattern
	}
	switch b := pattern[1]; b {
	case 's':
		m.spaces = true
		for r := range rune(utf8.RuneSelf) {
			m.ascii[r] = m.ascii[r] || unicode.IsSpace(r)
		}
	case 'n':
		m.add('\n')
	case 'r':
		m.add('\r')
	case 't':
		m.add('\t')
	default:
		if b >= utf8.RuneSelf || b == '_' || '0' <= b && b <= '9' || unicode.IsLetter(rune(b)) || b < ' ' {
			return "", errPattern
		}
		m.add(rune(b))
	}
	return pattern[2:], nil
}

func (m *run) add(r rune) {
	if r < utf8.RuneSelf {
		m.ascii[r] = true
		return
	}
	m.others += string(r)
}

func (m *run) parseCount(rest string) error {
	switch rest {
	case "":
		m.least = 1
		return nil
	case "+":
		m.least, m.greedy = 1, true
		return nil
	}
	if len(rest) < 3 || rest[0] != '{' || rest[len(rest)-1] != '}' {
		return errPattern
	}
	count, ok := strings.CutSuffix(rest[1:len(rest)-1], ",")
	least, err := strconv.ParseUint(count, 10, 16)
	if err != nil || least == 0 || count[0] == '0' { // some engines read "{01}" as text
		return errPattern
	}
	m.least, m.greedy = int(least), ok
	return nil
}

func (m *run) has(r rune) bool {
	return strings.ContainsRune(m.others, r) || m.spaces && unicode.IsSpace(r)
}

func (m *run) find(text string, i int) (start, end int) {
	count := 0
	for i < len(text) {
		in, n := m.at(text, i)
		if in {
			if count == 0 {
				start = i
			}
			count++
			if !m.greedy && count == m.least {
				return start, i + n
			}
		} else {
			if count >= m.least {
				return start, i
			}
			count = 0
		}
		i += n
	}
	if m.greedy && count >= m.least {
		return start, i
	}
	return i, i
}

// at reports whether the character at i is in the set, and its length.
func (m *run) at(text string, i int) (bool, int) {
	if b := text[i]; b < utf8.RuneSelf {
		return m.ascii[b], 1
	}
	r, n := utf8.DecodeRuneInString(text[i:])
	return m.has(r), n
}
