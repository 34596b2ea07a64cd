package chattemplate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnsupportedTemplatesAreRefusedByNameAndLine(t *testing.T) {
	for source, want := range map[string]string{
		"a\nb {% include 'x' %}":            "line 2: include is not supported",
		"{% extends 'x' %}":                 "line 1: extends is not supported",
		"{% block a %}{% endblock %}":       "line 1: block is not supported",
		"{% autoescape true %}":             "line 1: autoescape is not supported",
		"\n\n{{ x | nope }}":                "line 3: no filter named 'nope'",
		"{{ a) ~ (b }}":                     "line 1: unexpected ')'",
		"{% if a %}":                        "unexpected end of template",
		"{{ a":                              "unexpected end of template",
		strings.Repeat("x", 70<<10):         "longer than 64 KiB",
		"{{ " + strings.Repeat("(", 400):    "deeper",
		strings.Repeat("{% if a %}\n", 400): "deeper",
	} {
		_, err := Parse(source, Options{ControlTexts: []string{}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want one with %s", source, err, want)
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	_, err := parse(t, "a\n{% for m in messages %}\n{{ m.x.y }}{% endfor %}").Render(t.Context(), chat("a"))
	if want := "line 3: UndefinedError: 'dict object' has no attribute 'x'"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %s", err, want)
	}
}

func TestAHostileTemplateIsStopped(t *testing.T) {
	for _, source := range []string{
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
		"{% set n = namespace(x=messages[0].content) %}{% for i in range(64) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
		"{% set s = '%c' * 100000 %}{% for i in range(100000) %}{% set x = strftime_now(s) %}{% endfor %}",
	} {
		if segments, err := parse(t, source).Render(t.Context(), chat("a")); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: error %v, want a limit; %d segments", source, err, len(segments))
		}
	}
}

// Limits grow with the chat: neither many messages nor long ones meet them.
func TestLongChatsAreWithinTheLimits(t *testing.T) {
	many := make([]string, 1001)
	for i := range many {
		many[i] = "a"
	}
	long := []string{strings.Repeat("What is the capital of France?\n", 4<<20/32)}
	s := readShared(t, "testdata")
	if dir := os.Getenv("SWITCHYARD_DATA"); dir != "" {
		s = readShared(t, filepath.Join(dir, "chat-templates"))
	}
	for name, source := range s.templates {
		tmpl := parse(t, source)
		for _, contents := range [][]string{many, long} {
			_, err := tmpl.Render(t.Context(), chat(contents...))
			if errors.Is(err, ErrLimit) {
				t.Errorf("%s: %d messages, the first of %d bytes: %v", name, len(contents), len(contents[0]), err)
			}
		}
	}
}

func TestTemplatesMeanWhatTheyMeanInJinja2(t *testing.T) {
	in := chat("one", "two")
	for source, want := range map[string]string{
		"{% for m in messages %}\n\n{{ m.content }}\n{% endfor %}\nend":                         "\none\n\ntwo\nend",
		"  {% for m in messages -%}  \n {{ m.content }} {%- endfor %}":                          "onetwo",
		"{% macro f(a, b=' x= y') %}\n({{ a }}{{ b }})\n{% endmacro %}\n{{ f(1) }}":             "(1 x= y)\n",
		"{% macro m() %}<{{ caller('u') }}>{% endmacro %}{% call(v) m() %}{{ v }}{% endcall %}": "<u>",
		"{% set x %}\n  a\n{% endset %}\n[{{ x }}]":                                             "[  a\n]",
		"{% set n = namespace(a=1) %}{% set n.a = n.a + 1 %}{{ n.a }}":                          "2",
		"{{ dict(z=1, a='=', m=dict(y=2, b=3)) | tojson }}":                                     `{"z": 1, "a": "=", "m": {"y": 2, "b": 3}}`,
		"{% raw %}{{ x | nope }}{% set a %}{% endraw %}":                                        "{{ x | nope }}{% set a %}",
		"{# {{ x * 2 }} #}ab": "ab",
		"{{ '}}' ~ \"{%\" }}": "}}{%",
		"{{ 'a' if false else 'b' }}{{ messages | length }}{{ [3, 1, 2] | sort | join('-') }}": "b21-2-3",
		"{{ [1, 2, 3][::-1] | join(',') }}{{ 'abc'[1:] }}":                                     "3,2,1bc",
		"a\n": "a",
		"{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% if loop.last %}.{% endif %}{% endfor %}": "b1a2.",
		"{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}{{ m.content }}{% endfor %}":  "one",
	} {
		if got := render(t, source, in); got != want {
			t.Errorf("%q gives %q, want %q", source, got, want)
		}
	}
}

// Whatever a template is, it must neither crash nor run away.
func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in messages %}{{ m.role | upper }}{{ m['content'][0:1] }}{% endfor %}")
	f.Add("{% macro f(a) %}{{ f(a ~ a) }}{% endmacro %}{{ f('x') }}")
	f.Add("{% set n = namespace(x=[1]) %}{% set n.x = n.x + [n.x] %}{{ n.x | tojson(indent=2) }}")
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse(source, Options{ControlTexts: []string{"</s>"}, Limits: Limits{Output: 1 << 16, Memory: 1 << 19, Steps: 20_000, Depth: 16}})
		if err != nil {
			return
		}
		segments, err := tmpl.Render(t.Context(), chat("a </s> b", "c"))
		if err == nil && len(Join(segments)) > len(source)+1<<17 {
			t.Errorf("%d bytes came out", len(Join(segments)))
		}
	})
}
