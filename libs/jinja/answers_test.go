package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

// answers are templates and what Jinja2 says to them: its text, or its error.
type answers struct {
	Variables json.RawMessage
	Answers   [][3]string
}

func readAnswers(t *testing.T, path string) (answers, []Variable) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var a answers
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(a.Variables))
	d.UseNumber()
	v := decode(t, d)
	var variables []Variable
	for _, e := range v.ref.(*dict).entries {
		variables = append(variables, Variable{e.key.str, e.value})
	}
	return a, variables
}

// decode reads JSON in its order.
func decode(t *testing.T, d *json.Decoder) Value {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch v := token.(type) {
	case nil:
		return None()
	case bool:
		return Bool(v)
	case string:
		return Chat(v)
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return Int(i)
		}
		f, _ := v.Float64()
		return Float(f)
	}
	if token == json.Delim('[') {
		items := []Value{}
		for d.More() {
			items = append(items, decode(t, d))
		}
		_, _ = d.Token()
		return List(items)
	}
	var o Dict
	for d.More() {
		name, _ := d.Token()
		o.Set(name.(string), true, decode(t, d))
	}
	_, _ = d.Token()
	return o.Value()
}

// JINJA_ANSWERS names a file of more answers, which testdata/oracle.py generates.
func TestAnswersAreThoseOfJinja2(t *testing.T) {
	path := "testdata/answers.json"
	if more := os.Getenv("JINJA_ANSWERS"); more != "" {
		path = more
	}
	a, variables := readAnswers(t, path)
	if len(a.Answers) < 500 {
		t.Fatalf("only %d answers", len(a.Answers))
	}
	for _, c := range a.Answers {
		source, wantsText, want := c[0], c[1] == "ok", c[2]
		text, err := render(t, source, variables...)
		switch {
		case wantsText && err != nil:
			t.Errorf("%q: error %v, want %q", source, err, want)
		case wantsText && text.String() != want:
			t.Errorf("%q:\n got %q\nwant %q", source, text, want)
		case !wantsText && err == nil:
			t.Errorf("%q: got %q, want an error: %s", source, text, want)
		case !wantsText && strings.HasPrefix(want, "UndefinedError") && !strings.Contains(err.Error(), want):
			t.Errorf("%q: error %v, want %s", source, err, want)
		}
	}
}

// render parses and renders with functions as the chat templates have them.
func render(t testing.TB, source string, variables ...Variable) (Text, error) {
	t.Helper()
	tmpl, err := Parse(source)
	if err != nil {
		return Text{}, err
	}
	raise := Func("raise_exception", func(arguments []Value, _ func(int) error) (Value, error) {
		return Value{}, errors.New("TemplateError: " + arguments[0].str)
	})
	return tmpl.Render(t.Context(), append(variables, Variable{"raise_exception", raise}), 0, Limits{})
}
