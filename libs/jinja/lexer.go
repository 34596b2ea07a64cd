package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is a piece of a template: text, the beginning or end of a tag, or a word
// within one.
type token struct {
	kind tokenKind
	text string // of data, names, strings (decoded), numbers and operators
	line int
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenData
	tokenPrintBegin // {{
	tokenPrintEnd
	tokenBlockBegin // {%
	tokenBlockEnd
	tokenName
	tokenString
	tokenInteger
	tokenFloat
	tokenOperator
)

func (t token) is(operator string) bool { return t.kind == tokenOperator && t.text == operator }
func (t token) isName(name string) bool { return t.kind == tokenName && t.text == name }
func (t token) isAnyName(names []string) bool {
	for _, name := range names {
		if t.isName(name) {
			return true
		}
	}
	return false
}

// String describes a token as Jinja's messages do.
func (t token) String() string {
	switch t.kind {
	case tokenEnd:
		return "end of template"
	case tokenData:
		return "template data / text"
	case tokenPrintBegin:
		return "begin of print statement"
	case tokenPrintEnd:
		return "end of print statement"
	case tokenBlockBegin:
		return "begin of statement block"
	case tokenBlockEnd:
		return "end of statement block"
	case tokenString:
		return "string"
	case tokenInteger:
		return "integer"
	case tokenFloat:
		return "float"
	}
	return t.text
}

// syntaxError is an error of Parse.
func syntaxError(line int, format string, args ...any) error {
	return &Error{line, fmt.Errorf(format, args...)}
}

// lexer splits a source as Jinja's regular expressions do, with trim_blocks and
// lstrip_blocks.
type lexer struct {
	src       string
	at        int
	line      int
	lineStart bool // what was last matched ended with a newline
	tokens    []token
}

func lex(source string) ([]token, error) {
	source = normalizeNewlines(source)
	l := &lexer{src: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.at < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	return append(l.tokens, token{kind: tokenEnd, line: l.line}), nil
}

func normalizeNewlines(s string) string {
	if !strings.Contains(s, "\r") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

// advance moves past n bytes.
func (l *lexer) advance(n int) {
	passed := l.src[l.at : l.at+n]
	l.line += strings.Count(passed, "\n")
	l.at += n
	if n > 0 {
		l.lineStart = passed[n-1] == '\n'
	}
}

func (l *lexer) rest() string { return l.src[l.at:] }

// root reads text up to the next tag, and the tag.
func (l *lexer) root() error {
	text := l.rest()
	start := nextTag(text)
	if start < 0 {
		l.add(tokenData, text)
		l.advance(len(text))
		return nil
	}
	tag := text[start:]
	sign := signOf(tag[2:])
	l.data(text[:start], sign, tag[1] != '{')
	if n := rawBegin(tag); n > 0 {
		l.advance(n)
		return l.raw()
	}
	switch tag[1] {
	case '#':
		l.advance(2 + len(sign))
		return l.comment()
	case '%':
		l.add(tokenBlockBegin, "")
	default:
		l.add(tokenPrintBegin, "")
	}
	l.advance(2 + len(sign))
	return l.tag(tag[1] == '%')
}

func nextTag(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		if c := s[from+i+1]; c == '{' || c == '%' || c == '#' {
			return from + i
		}
		from += i + 1
	}
}

func signOf(s string) string {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[:1]
	}
	return ""
}

// data adds the text before a tag, and moves past it.
func (l *lexer) data(text, sign string, block bool) {
	kept := text
	switch {
	case sign == "-":
		kept = strings.TrimRightFunc(text, isSpace)
	case sign == "" && block:
		line := strings.LastIndexByte(text, '\n') + 1
		if (line > 0 || l.lineStart) && strings.TrimLeftFunc(text[line:], isSpace) == "" {
			kept = text[:line]
		}
	}
	if kept != "" {
		l.add(tokenData, kept)
	}
	l.advance(len(text))
}

// rawBegin is the length of a raw tag at the start of s, or 0.
func rawBegin(s string) int {
	if !strings.HasPrefix(s, "{%") {
		return 0
	}
	rest := strings.TrimLeftFunc(s[2+len(signOf(s[2:])):], isSpace)
	rest, ok := strings.CutPrefix(rest, "raw")
	if !ok {
		return 0
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	if after, ok := strings.CutPrefix(rest, "-%}"); ok {
		return len(s) - len(strings.TrimLeftFunc(after, isSpace))
	}
	if after, ok := strings.CutPrefix(rest, "%}"); ok {
		return len(s) - len(after)
	}
	return 0
}

// raw reads up to and with endraw.
func (l *lexer) raw() error {
	text := l.rest()
	if text == "" {
		return nil // as Jinja has it
	}
	for from := 0; ; {
		i := strings.Index(text[from:], "{%")
		if i < 0 {
			return syntaxError(l.line, "missing end of raw directive")
		}
		start := from + i
		sign := signOf(text[start+2:])
		after := strings.TrimLeftFunc(text[start+2+len(sign):], isSpace)
		after, ok := strings.CutPrefix(after, "endraw")
		if ok {
			after = strings.TrimLeftFunc(after, isSpace)
			if n := blockEnd(after, "%}"); n > 0 {
				l.data(text[:start], sign, true)
				l.advance(len(text) - len(after) + n - start)
				return nil
			}
		}
		from = start + 2
	}
}

// blockEnd is the length of the end of a block or comment at the start of s, with the
// white space that it takes, or 0.
func blockEnd(s, end string) int {
	switch {
	case strings.HasPrefix(s, "+"+end):
		return 3
	case strings.HasPrefix(s, "-"+end):
		return len(s) - len(strings.TrimLeftFunc(s[3:], isSpace))
	case strings.HasPrefix(s, end+"\n"):
		return 3
	case strings.HasPrefix(s, end):
		return 2
	}
	return 0
}

func (l *lexer) comment() error {
	text := l.rest()
	i := strings.Index(text, "#}")
	if i < 0 {
		return syntaxError(l.line, "missing end of comment tag")
	}
	if i > 0 && (text[i-1] == '-' || text[i-1] == '+') {
		i--
	}
	l.advance(i + blockEnd(text[i:], "#}"))
	return nil
}

// isSpace is Python's str.isspace.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// tag reads the words of a tag, and its end.
func (l *lexer) tag(block bool) error {
	var open []byte // brackets that are to be closed
	for {
		text := l.rest()
		text = strings.TrimLeftFunc(text, isSpace)
		l.advance(len(l.rest()) - len(text))
		if text == "" {
			return nil // the parser misses the end
		}
		if len(open) == 0 {
			if n := tagEnd(text, block); n > 0 {
				kind := tokenPrintEnd
				if block {
					kind = tokenBlockEnd
				}
				l.add(kind, "")
				l.advance(n)
				return nil
			}
		}
		kind, n := word(text, l.at > 0 && l.src[l.at-1] == '.')
		if n == 0 {
			r, _ := utf8.DecodeRuneInString(text)
			return syntaxError(l.line, "unexpected char %q", r)
		}
		value := text[:n]
		switch kind {
		case tokenString:
			decoded, err := unescape(value[1 : n-1])
			if err != nil {
				return syntaxError(l.line, "%w", err)
			}
			value = decoded
		case tokenName:
			if first, _ := utf8.DecodeRuneInString(value); !isLetter(first) {
				return syntaxError(l.line, "invalid character in identifier")
			}
		case tokenOperator:
			var err error
			if open, err = l.balance(open, value); err != nil {
				return err
			}
		}
		l.add(kind, value)
		l.advance(n)
	}
}

func tagEnd(s string, block bool) int {
	if block {
		return blockEnd(s, "%}")
	}
	if strings.HasPrefix(s, "-}}") {
		return len(s) - len(strings.TrimLeftFunc(s[3:], isSpace))
	}
	if strings.HasPrefix(s, "}}") {
		return 2
	}
	return 0
}

// maxOpen bounds brackets within brackets.
const maxOpen = 200

func (l *lexer) balance(open []byte, operator string) ([]byte, error) {
	switch operator {
	case "{", "(", "[":
		if len(open) == maxOpen {
			return nil, syntaxError(l.line, "brackets nest deeper than %d", maxOpen)
		}
		return append(open, map[string]byte{"{": '}', "(": ')', "[": ']'}[operator]), nil
	case "}", ")", "]":
		if len(open) == 0 {
			return nil, syntaxError(l.line, "unexpected '%s'", operator)
		}
		if want := open[len(open)-1]; want != operator[0] {
			return nil, syntaxError(l.line, "unexpected '%s', expected '%c'", operator, want)
		}
		return open[:len(open)-1], nil
	}
	return open, nil
}
