package chattemplate

import "strings"

// adapt writes an admitted expression for the guard: filters by the names of their
// guarded versions, and the names of keyword arguments of dict and namespace before
// them, since the library forgets their order.
func adapt(expression string) string {
	ws := words(expression)
	var out strings.Builder
	from := 0
	for i, w := range ws {
		insert, at := "", 0
		switch {
		case w.kind != wordName:
		case i > 0 && ws[i-1].text == "|":
			insert, at = hookPrefix, w.at
		case (w.text == "dict" || w.text == "namespace") && (i == 0 || ws[i-1].text != ".") && i+1 < len(ws) && ws[i+1].text == "(":
			insert, at = "'"+strings.Join(keywords(ws[i+2:]), ",")+"', ", ws[i+1].at+1
		}
		if insert != "" {
			out.WriteString(expression[from:at] + insert)
			from = at
		}
	}
	return out.String() + expression[from:]
}

// keywords lists the names of a call's keyword arguments; ws starts after its bracket.
func keywords(ws []word) (names []string) {
	depth := 0
	for i, w := range ws {
		if w.kind == wordMark && strings.Contains("([{", w.text) {
			depth++
		}
		if w.kind == wordMark && strings.Contains(")]}", w.text) {
			depth--
		}
		if depth < 0 {
			break
		}
		single := i+2 < len(ws) && ws[i+1].text == "=" && ws[i+2].text != "="
		if depth == 0 && w.kind == wordName && single {
			names = append(names, w.text)
		}
	}
	return names
}
