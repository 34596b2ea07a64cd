package chattemplate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// instrument checks a template and returns it with calls of the guard's hooks in it.
// They are written as {{ … }}, which, unlike statements, leaves the white space around
// as it is:
//
//	{{ x }}                    {{ __print(x) }}
//	x|f                        x|__f, and more: see adapt
//	{% set a = x %}            {% set a = __keep(x) %}
//	{% set ns.a = x %}         {% set ns.a = __keep(x, ns) %}
//	{% for a, b in x %}        … {{ __pass(bytes, a, b) }}
//	{% macro m(a) %}           … {{ __enter(bytes, a) }}
//	{% endmacro %}             {{ __leave() }} …
//
// where bytes is how much text one pass through the block can write by itself.
func instrument(source string) (string, error) {
	if len(source) > maxSourceBytes {
		return "", fmt.Errorf("has %d bytes, want at most %d", len(source), maxSourceBytes)
	}
	parts, err := scan(strings.TrimSuffix(source, "\n")) // as Jinja does
	if err != nil {
		return "", err
	}
	in := instrumenter{parts: parts}
	if err := in.matchBlocks(); err != nil {
		return "", err
	}
	for i, p := range parts {
		if err := in.part(i); err != nil {
			return "", fmt.Errorf("line %d: %s: %w", p.line, abridged(p.source), err)
		}
	}
	return in.out.String(), nil
}

func abridged(tag string) string {
	if len(tag) > 60 {
		tag = tag[:57] + "..."
	}
	return strconv.Quote(tag)
}

type instrumenter struct {
	parts  []part
	opener []int // of a closing or middle statement: the part that opens the block
	text   []int // of an opening statement: the bytes of text in its block
	raw    []bool
	out    strings.Builder
}

// matchBlocks finds what belongs together, and what is raw text.
func (in *instrumenter) matchBlocks() error {
	in.opener, in.text, in.raw = make([]int, len(in.parts)), make([]int, len(in.parts)), make([]bool, len(in.parts))
	var open []int
	for i, p := range in.parts {
		in.raw[i] = len(open) > 0 && keyword(in.parts[open[len(open)-1]].content) == "raw"
		if p.kind == partText || in.raw[i] {
			for _, o := range open {
				in.text[o] += len(p.source)
			}
		}
		if p.kind != partStatement {
			continue
		}
		word := keyword(p.content)
		switch closes, isEnd := strings.CutPrefix(word, "end"); {
		case isEnd && len(open) > 0 && keyword(in.parts[open[len(open)-1]].content) == closes:
			in.opener[i], in.raw[i] = open[len(open)-1], false
			open = open[:len(open)-1]
		case in.raw[i]:
		case isEnd:
			return fmt.Errorf("line %d: %s ends no block that is open", p.line, word)
		case opensBlock(word, p.content):
			open = append(open, i)
		}
		if len(open) > maxBlocks {
			return fmt.Errorf("line %d: blocks nest deeper than %d", p.line, maxBlocks)
		}
	}
	if len(open) > 0 {
		p := in.parts[open[len(open)-1]]
		return fmt.Errorf("line %d: %s is not ended", p.line, abridged(p.source))
	}
	return nil
}

func opensBlock(word, content string) bool {
	switch word {
	case "for", "if", "macro", "call", "filter", "generation", "raw":
		return true
	case "set":
		return !strings.Contains(content, "=")
	}
	return false
}

func (in *instrumenter) part(i int) error {
	p := in.parts[i]
	switch {
	case p.kind == partText || p.kind == partComment || in.raw[i]:
		in.out.WriteString(p.source)
		return nil
	case p.kind == partPrint:
		if err := admit(p.content); err != nil {
			return err
		}
		if strings.TrimSpace(p.content) != "" {
			p.content = "__print(" + adapt(p.content) + ")"
		}
		in.write(p)
		return nil
	}
	return in.statement(i)
}

func (in *instrumenter) write(p part) {
	in.out.WriteString(p.open + " " + strings.TrimSpace(p.content) + " " + p.close)
}

func (in *instrumenter) hook(name string, arguments ...string) {
	in.out.WriteString("{{ " + hookPrefix + name + "(" + strings.Join(arguments, ", ") + ") }}")
}

func (in *instrumenter) statement(i int) error {
	p := in.parts[i]
	verb := keyword(p.content)
	rest := strings.TrimPrefix(strings.TrimSpace(p.content), verb)
	if err := admit(rest); err != nil {
		return err
	}
	if verb != "macro" { // of which the head is no expression
		rest = adapt(rest)
		p.content = verb + rest
	}
	bytes := strconv.Itoa(in.text[i])
	switch verb {
	case "set":
		return in.set(p, rest)
	case "for":
		ws := words(rest)
		i := slices.IndexFunc(ws, func(w word) bool { return w.kind == wordName && w.text == "in" })
		if i < 0 {
			return errors.New("want for … in …")
		}
		return in.block(p, "pass", bytes, rest[:ws[i].at], true)
	case "macro":
		if _, defaults, ok := strings.Cut(rest, "("); ok && strings.ContainsAny(defaults, "(|") {
			return errors.New("calls and filters in a macro's defaults are not allowed")
		}
		_, list, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(rest), ")"), "(")
		return in.block(p, "enter", bytes, list, ok)
	case "filter":
		return errors.New("filter blocks are not allowed")
	case "call":
		list := ""
		if after, ok := strings.CutPrefix(strings.TrimSpace(rest), "("); ok {
			list, _, _ = strings.Cut(after, ")")
		}
		return in.block(p, "enter", bytes, list, true)
	case "endmacro", "endcall":
		in.hook("leave")
	}
	in.write(p)
	return nil
}

// block writes a statement that binds the names of a list, which may have defaults.
func (in *instrumenter) block(p part, hook, bytes, list string, ok bool) error {
	arguments := []string{bytes}
	for name := range strings.SplitSeq(list, ",") {
		name, _, _ = strings.Cut(name, "=")
		name = strings.TrimSpace(name)
		if name == "" && strings.TrimSpace(list) == "" {
			break
		}
		if ok = ok && isName(name); !ok {
			break
		}
		arguments = append(arguments, name)
	}
	if !ok {
		return errors.New("want plain names, separated by commas")
	}
	in.write(p)
	in.hook(hook, arguments...)
	return nil
}

func (in *instrumenter) set(p part, rest string) error {
	target, value, inline := strings.Cut(rest, "=")
	target = strings.TrimSpace(target)
	object, attribute, isAttribute := strings.Cut(target, ".")
	if !isName(object) || isAttribute && !isName(attribute) {
		return fmt.Errorf("set of %q, want a name or an attribute of one", target)
	}
	switch {
	case inline && strings.TrimSpace(value) == "":
		return fmt.Errorf("set of %q to nothing", target)
	case inline && isAttribute:
		p.content = "set " + target + " = __keep(" + value + ", " + object + ")"
	case inline:
		p.content = "set " + target + " = __keep(" + value + ")"
	}
	in.write(p)
	return nil
}
