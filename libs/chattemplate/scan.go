package chattemplate

import (
	"fmt"
	"strings"
	"unicode"
)

// part is a piece of a template's source: text or one tag.
type part struct {
	kind    partKind
	source  string // as it stands
	content string // of a tag, between its delimiters and their trim marks
	open    string // of a tag: its delimiter, with a trim mark
	close   string
	line    int
}

type partKind int

const (
	partText partKind = iota
	partComment
	partPrint     // {{ … }}
	partStatement // {% … %}
)

// scan splits source at the same places as the library does; a guard that saw other
// tags than what runs would guard nothing.
func scan(source string) ([]part, error) {
	var parts []part
	line := 1
	for source != "" {
		start := nextTag(source)
		if start > 0 {
			parts = append(parts, part{kind: partText, source: source[:start], line: line})
			line += strings.Count(source[:start], "\n")
			source = source[start:]
			continue
		}
		p, err := tag(source)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		p.line = line
		parts = append(parts, p)
		line += strings.Count(p.source, "\n")
		source = source[len(p.source):]
	}
	return parts, nil
}

// nextTag is where the next tag starts, or the end of source.
func nextTag(source string) int {
	for i := 0; i+1 < len(source); i++ {
		if source[i] == '{' && strings.IndexByte("{%#", source[i+1]) >= 0 {
			return i
		}
	}
	return len(source)
}

// tag reads the tag at the start of source.
func tag(source string) (part, error) {
	p := part{kind: partPrint, open: source[:2], close: "}}"}
	switch source[1] {
	case '%':
		p.kind, p.close = partStatement, "%}"
	case '#':
		p.kind, p.close = partComment, "#}"
	}
	if strings.HasPrefix(source[2:], "-") {
		p.open = source[:3]
	}
	for i := len(p.open); i < len(source); i++ {
		if p.kind != partComment && (source[i] == '\'' || source[i] == '"') {
			i += quoted(source[i:]) - 1
			continue
		}
		if strings.HasPrefix(source[i:], "-"+p.close) {
			p.close = "-" + p.close
		}
		if strings.HasPrefix(source[i:], p.close) {
			p.content = source[len(p.open):i]
			p.source = source[:i+len(p.close)]
			return p, nil
		}
	}
	return p, fmt.Errorf("tag %s is not closed", p.open)
}

// quoted is the length of the string literal at the start of s, or of all of s when it
// does not end.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}

// keyword is the first word of a statement.
func keyword(content string) string {
	content = strings.TrimSpace(content)
	for i, r := range content {
		if !unicode.IsLetter(r) && r != '_' {
			return content[:i]
		}
	}
	return content
}
