package jinja

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// word is the kind and length of the word at the start of s; a length of 0 says that
// there is none. No float begins after a dot: a.1.5 has two subscripts.
func word(s string, afterDot bool) (tokenKind, int) {
	if n := floatLen(s); n > 0 && !afterDot {
		return tokenFloat, n
	}
	if n := integerLen(s); n > 0 {
		return tokenInteger, n
	}
	if n := nameLen(s); n > 0 {
		return tokenName, n
	}
	if s[0] == '\'' || s[0] == '"' {
		return tokenString, stringLen(s)
	}
	for _, operator := range []string{"//", "**", "==", "!=", ">=", "<="} {
		if strings.HasPrefix(s, operator) {
			return tokenOperator, 2
		}
	}
	if strings.IndexByte("+-/*%~[](){}><=.:|,;", s[0]) >= 0 {
		return tokenOperator, 1
	}
	return tokenOperator, 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits is the length of digits at the start of s that single underscores may part.
func digits(s string, is func(byte) bool) int {
	n := 0
	for n < len(s) && (is(s[n]) || s[n] == '_' && n > 0 && s[n-1] != '_' && n+1 < len(s) && is(s[n+1])) {
		n++
	}
	return n
}

func floatLen(s string) int {
	n := digits(s, isDigit)
	if n == 0 {
		return 0
	}
	fraction := 0
	if n < len(s) && s[n] == '.' {
		if d := digits(s[n+1:], isDigit); d > 0 {
			fraction = 1 + d
		}
	}
	if e := n + fraction; e < len(s) && (s[e] == 'e' || s[e] == 'E') {
		e++
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if d := digits(s[e:], isDigit); d > 0 {
			return e + d
		}
	}
	if fraction == 0 {
		return 0
	}
	return n + fraction
}

func integerLen(s string) int {
	if !isDigit(s[0]) {
		return 0
	}
	if s[0] != '0' {
		return digits(s, isDigit)
	}
	if len(s) > 1 {
		if is := digitsOf(s[1]); is != nil {
			rest := strings.TrimPrefix(s[2:], "_")
			if n := digits(rest, is); n > 0 {
				return len(s) - len(rest) + n
			}
		}
	}
	return digits(s, func(c byte) bool { return c == '0' })
}

// digitsOf says which digits follow 0b, 0o or 0x.
func digitsOf(prefix byte) func(byte) bool {
	switch prefix {
	case 'b', 'B':
		return func(c byte) bool { return c == '0' || c == '1' }
	case 'o', 'O':
		return func(c byte) bool { return '0' <= c && c <= '7' }
	case 'x', 'X':
		return func(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
	}
	return nil
}

func isLetter(r rune) bool { return r == '_' || unicode.IsLetter(r) }

func nameLen(s string) int {
	for i, r := range s {
		if r == utf8.RuneError || !isLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) {
			return i
		}
	}
	return len(s)
}

// stringLen is the length of the string literal at the start of s, or 0 if it does not
// end.
func stringLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

// unescape decodes the inside of a string literal as Python's unicode-escape.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			i++
			continue
		}
		if i+1 == len(s) {
			return "", errors.New(`\ at end of string`)
		}
		n, err := escape(&b, s[i+1:])
		if err != nil {
			return "", err
		}
		i += 1 + n
	}
	return b.String(), nil
}

// escape writes what stands after a backslash, and returns how long it is.
func escape(b *strings.Builder, s string) (int, error) {
	simple := map[byte]string{'\n': "", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v"}
	c := s[0]
	if text, ok := simple[c]; ok {
		b.WriteString(text)
		return 1, nil
	}
	switch {
	case c == 'x':
		return hexEscape(b, s, 2)
	case c == 'u':
		return hexEscape(b, s, 4)
	case c == 'U':
		return hexEscape(b, s, 8)
	case c == 'N':
		return 0, errors.New(`\N{…} is not supported in strings`)
	case '0' <= c && c <= '7':
		n := 1
		for n < 3 && n < len(s) && '0' <= s[n] && s[n] <= '7' {
			n++
		}
		r, _ := strconv.ParseUint(s[:n], 8, 32)
		b.WriteRune(rune(r))
		return n, nil
	case c >= utf8.RuneSelf: // Python escapes what is not ASCII first, and the backslash then stands for itself
		r, n := utf8.DecodeRuneInString(s)
		b.WriteString(`\`)
		switch {
		case r < 0x100:
			fmt.Fprintf(b, "x%02x", r)
		case r < 0x10000:
			fmt.Fprintf(b, "u%04x", r)
		default:
			fmt.Fprintf(b, "U%08x", r)
		}
		return n, nil
	}
	b.WriteString(`\`)
	b.WriteByte(c)
	return 1, nil
}

func hexEscape(b *strings.Builder, s string, n int) (int, error) {
	if len(s) < 1+n {
		return 0, fmt.Errorf(`truncated \%c escape`, s[0])
	}
	r, err := strconv.ParseUint(s[1:1+n], 16, 32)
	if err != nil {
		return 0, fmt.Errorf(`truncated \%c escape`, s[0])
	}
	if !utf8.ValidRune(rune(r)) || r > unicode.MaxRune {
		return 0, fmt.Errorf(`\%s is no character`, s[:1+n])
	}
	b.WriteRune(rune(r))
	return 1 + n, nil
}
