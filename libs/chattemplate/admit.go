package chattemplate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What a template may hold. Real templates stay far below; the bounds keep the
// library's recursion within the stack and a single expression within reason.
const (
	maxSourceBytes  = 256 << 10
	maxTagBytes     = 8 << 10
	maxBrackets     = 32   // open at a time
	maxJoins        = 64   // of ~ and + in one tag
	maxBlocks       = 64   // within one another
	maxLiteralBytes = 64   // of an argument that is repeated
	maxIndent       = 64   // blanks
	hookPrefix      = "__" // of the names of the guard and of the library's own
)

// admit refuses an expression that could use memory or time out of proportion to its
// operands, or get at the guard.
func admit(expression string) error {
	if len(expression) > maxTagBytes {
		return fmt.Errorf("a tag has %d bytes, want at most %d", len(expression), maxTagBytes)
	}
	ws := words(expression)
	open, joins, growing := []byte(nil), 0, 0
	for i, w := range ws {
		if err := admitWord(ws, i); err != nil {
			return err
		}
		if w.text == "replace" && grows(ws[i:]) {
			growing++
		}
		if w.kind != wordMark {
			continue
		}
		switch c := w.text[0]; c {
		case '(', '[', '{':
			open = append(open, map[byte]byte{'(': ')', '[': ']', '{': '}'}[c])
		case ')', ']', '}':
			if len(open) == 0 || open[len(open)-1] != c {
				return fmt.Errorf("%q closes nothing", c)
			}
			open = open[:len(open)-1]
		case '~', '+':
			joins++
		}
		if len(open) > maxBrackets {
			return fmt.Errorf("brackets nest deeper than %d", maxBrackets)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%q is missing", open[len(open)-1])
	}
	if growing > 1 {
		return errors.New("more than one replace that makes its text longer is not allowed in one tag")
	}
	if joins > maxJoins {
		return fmt.Errorf("one tag joins %d values, want at most %d", joins, maxJoins)
	}
	return nil
}

func admitWord(ws []word, i int) error {
	at := func(j int) string {
		if j < 0 || j >= len(ws) {
			return ""
		}
		return ws[j].text
	}
	w := ws[i]
	switch {
	case w.kind == wordMark && w.text == "*":
		return errors.New("multiplication and repetition (*) are not allowed")
	case w.kind == wordMark && w.text == ":" && steps(ws, i):
		return errors.New("a slice with a step other than [::-1] is not allowed")
	case w.kind == wordMark && w.text == "(" && i > 0 && (at(i-1) == ")" || at(i-1) == "]" || at(i-1) == "}"):
		return errors.New("calling the result of an expression is not allowed")
	case w.kind != wordName:
		return nil
	case strings.HasPrefix(w.text, hookPrefix):
		return fmt.Errorf("%s: names that start with %s are reserved", w.text, hookPrefix)
	case at(i-1) == "." || at(i-1) == "|":
		return admitOperation(ws[i:], at(i-1) == "|")
	case w.text == "indent" && at(i+1) == "=": // of tojson
		if width := at(i + 2); width != "none" && width != "None" && !small(width) {
			return fmt.Errorf("indent=%s, want a number up to %d", width, maxIndent)
		}
	case w.text == "separators" && at(i+1) == "=" && i+3 < len(ws): // (", ", ": ")
		return admitArguments(w.text, append(ws[i+3:len(ws):len(ws)], word{kind: wordMark, text: ")"}))
	}
	return nil
}

// admitOperation looks at a filter or an attribute, which ws starts with. Methods that
// are not allowed, or not with every argument, must not be taken as values either.
func admitOperation(ws []word, filter bool) error {
	name := ws[0].text
	called := len(ws) > 1 && ws[1].text == "("
	if filter && name != "tojson" && !slices.Contains(filterNames(), name) {
		return fmt.Errorf("filter %s is unknown or not allowed", name)
	}
	switch name {
	case "indent":
		if filter && called {
			return admitArguments(name, ws[2:])
		}
	case "append", "insert", "update", "setdefault", "format":
		return fmt.Errorf("%s is not allowed", name)
	case "replace", "strip", "lstrip", "rstrip", "join", "trim":
		if called {
			return admitArguments(name, ws[2:])
		}
		if !filter {
			return fmt.Errorf("%s must be called", name)
		}
	}
	return nil
}

// admitArguments wants short literals: what is done with them is done for each
// character of the operand.
func admitArguments(name string, ws []word) error {
	for i, w := range ws {
		named := i+1 < len(ws) && ws[i+1].text == "="
		switch {
		case w.kind == wordMark && w.text == ")":
			return nil
		case w.kind == wordMark && (w.text == "," || w.text == "="):
		case w.kind == wordName && (named || slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, w.text)):
		case w.kind == wordString && name == "replace" && i == 0 && len(w.text) <= 2:
			return errors.New("replace of an empty string is not allowed")
		case w.kind == wordString && len(w.text) <= maxLiteralBytes+2:
		case w.kind == wordNumber && small(w.text):
		default:
			return fmt.Errorf("%s: argument %s, want a literal: a string of at most %d bytes or a number up to %d", name, w.text, maxLiteralBytes, maxIndent)
		}
	}
	return nil
}

func small(number string) bool {
	n, err := strconv.Atoi(number)
	return err == nil && n <= maxIndent
}

// grows reports whether a call of replace, which ws starts with, has a longer second
// argument than first.
func grows(ws []word) bool {
	return len(ws) > 4 && ws[3].text == "," && len(ws[4].text) > len(ws[2].text)
}

// steps reports whether the colon at i is the second of a slice, other than in [::-1]:
// the library counts through the bounds of such a slice, however far they are.
func steps(ws []word, i int) bool {
	depth, colons := 0, 0
	for j := i - 1; j >= 0 && depth >= 0; j-- {
		switch ws[j].text {
		case ")", "]", "}":
			depth++
		case "(", "{":
			depth--
		case "[":
			if depth--; depth < 0 && colons > 0 {
				tail := ""
				for _, w := range ws[j:min(j+6, len(ws))] {
					tail += w.text
				}
				return tail != "[::-1]"
			}
		case ":":
			if depth == 0 {
				colons++
			}
		}
	}
	return false
}
