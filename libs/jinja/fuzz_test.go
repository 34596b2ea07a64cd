package jinja

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Whatever a template is, it must neither crash nor run away, and never make the template's
// own what came out of the chat.
func FuzzTemplate(f *testing.F) {
	data, err := os.ReadFile("testdata/answers.json")
	if err != nil {
		f.Fatal(err)
	}
	var a answers
	if err := json.Unmarshal(data, &a); err != nil {
		f.Fatal(err)
	}
	for _, c := range a.Answers {
		f.Add(c[0])
	}
	for _, source := range hostile() {
		f.Add(source)
	}
	for _, source := range mixing() {
		f.Add(source)
	}
	// No filter makes this character, or loses it.
	const mark = "ᚠ"
	variables := []Variable{
		{"c", Chat(mark + "a " + mark + "\n")}, {"s", Chat(mark)}, {"x", Chat("ab" + mark)}, {"l", List([]Value{Chat(mark), Chat("b")})},
		{"n", Int(7)}, {"t", Bool(true)}, {"users", List([]Value{fuzzUser(mark)})}, {"d", fuzzUser(mark)},
	}
	f.Fuzz(func(t *testing.T, source string) {
		if strings.Contains(source, mark) || strings.Contains(strings.ToLower(source), "16a0") || strings.Contains(source, "5792") {
			t.Skip("the template itself has the mark")
		}
		tmpl, err := Parse(source)
		if err != nil {
			return
		}
		limits := Limits{Steps: 20_000, Memory: 1 << 18, Output: 1 << 16, Depth: 16}
		text, err := tmpl.Render(t.Context(), variables, 0, limits)
		if err != nil {
			return
		}
		if n := len(text.String()); n > limits.Output {
			t.Errorf("%d bytes came out", n)
		}
		joined := ""
		for s, trusted := range text.All() {
			joined += s
			if s == "" {
				t.Error("an empty stretch")
			}
			if trusted && strings.Contains(s, mark) {
				t.Errorf("%q is trusted", s)
			}
		}
		if joined != text.String() {
			t.Errorf("the stretches are %q, the text is %q", joined, text)
		}
	})
}

func fuzzUser(mark string) Value {
	var d Dict
	d.Set("name", false, Chat("Bob"+mark))
	d.Set(mark+"k", true, Chat(mark))
	d.Set("age", false, Int(30).OfChat())
	return d.Value()
}
